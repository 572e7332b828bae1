"""Exceptions: outside ones have shadows, tracebacks and contexts are CPython's, giving up leaves no trace."""

from __future__ import annotations

import io
import sys

import pytest
import torch

import stator
from stator.errors import Unsupported
from tests.harness import check


class Failure(Exception):
    def __init__(self, code: int, notes: list[int]) -> None:
        super().__init__(code)
        self.notes = notes


def raise_and_chain(first: Failure, second: Exception) -> tuple[object, ...]:
    try:
        try:
            raise first
        except Failure as error:
            error.notes.append(1)
            error.extra = "x"
            raise second from error
    except Exception as error:
        return error is second, error.__cause__ is first, error.__context__ is first, str(error)


def test_outside_exceptions_are_changed_as_effects() -> None:
    first, second = Failure(3, []), RuntimeError("second")
    compiled = stator.compile(raise_and_chain, backend="eager", fullgraph=True)
    assert compiled(first, second) == (True, True, True, "second")
    assert first.notes == [1]
    assert first.extra == "x"
    assert second.__cause__ is first
    assert second.__context__ is first
    assert second.__suppress_context__


@pytest.mark.parametrize(
    "make",
    [
        lambda: OSError(2, "no", "file"),
        lambda: UnicodeDecodeError("utf8", b"abc", 0, 1, "bad"),
        lambda: StopIteration(4),
        lambda: SystemExit(5),
        lambda: ImportError("gone", name="n", path="p"),
        lambda: SyntaxError("bad", ("f", 1, 2, "text")),
        lambda: KeyError("k"),
        lambda: ExceptionGroup("g", [ValueError(1), TypeError(2)]),
    ],
)
def test_outside_exceptions_keep_their_fields(make: object) -> None:
    error = make()
    names = [n for n in dir(error) if not n.startswith("__") and not callable(getattr(error, n, None))]

    def read() -> list[object]:
        return [repr(error), str(error), *(repr(getattr(error, n)) for n in names if hasattr(error, n))]

    assert stator.compile(read, backend="eager", fullgraph=True)() == read()


def test_split_of_an_outside_group_keeps_identity() -> None:
    group = ExceptionGroup("g", [ValueError(1), TypeError(2)])

    def split() -> tuple[bool, str]:
        match, rest = group.split(ValueError)
        return match.exceptions[0] is group.exceptions[0], repr(rest)

    assert stator.compile(split, backend="eager", fullgraph=True)() == split()


def bare_raise_in_group() -> list[str]:
    try:
        try:
            raise ExceptionGroup("eg", [TypeError(1), ValueError(2), OSError(3)])
        except* TypeError:
            raise
        except* ValueError:
            raise
    except ExceptionGroup as error:
        return [error.message, *map(repr, error.exceptions)]
    return []


def lines_of_reraised() -> list[int]:
    def inner() -> None:
        try:
            1 / 0
        except ZeroDivisionError as error:  # noqa: F841 - its name is deleted by a handler that re-raises
            raise

    try:
        inner()
    except ZeroDivisionError as error:
        lines, step = [], error.__traceback__
        while step is not None:
            lines += [step.tb_lineno, step.tb_frame.f_lineno if step.tb_next is None else 0]
            step = step.tb_next
        return [line - lines_of_reraised.__code__.co_firstlineno for line in lines]
    return []


def test_bare_raise_adds_no_traceback() -> None:
    check(bare_raise_in_group)
    check(lines_of_reraised)


def handled_then_refused() -> None:
    try:
        raise ValueError
    except ValueError:
        open("nowhere")  # noqa: PLW1514, SIM115


def test_giving_up_in_a_handler_leaves_no_exception_behind() -> None:
    with pytest.raises(Unsupported):
        stator.compile(handled_then_refused, backend="eager", fullgraph=True)()
    assert sys.exc_info() == (None, None, None)


def shown() -> str:
    undefined_name = 1  # noqa: F841 - what the message suggests
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        undefined_nam  # noqa: B018, F821
    except NameError:
        sys.__excepthook__(*sys.exc_info())
    finally:
        stream, sys.stderr = sys.stderr, before
    return stream.getvalue()


def test_excepthook_writes_what_cpython_writes(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = stator.compile(shown, backend="eager", fullgraph=True)
    text = compiled()
    assert text == shown() == compiled()
    assert "Did you mean: 'undefined_name'?" in text

    def to_outside_stream() -> None:
        try:
            raise KeyError("k")
        except KeyError:
            sys.__excepthook__(*sys.exc_info())

    stator.compile(to_outside_stream, backend="eager", fullgraph=True)()
    assert capsys.readouterr().err.endswith("KeyError: 'k'\n")


class Hooked:
    def __getattr__(self, name):
        raise AttributeError


class Computed:
    @property
    def missing(self):
        raise AttributeError("not yet")


class Watched:
    def __getattribute__(self, name):
        if name == "missing":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("kind", [Hooked, Computed, Watched])
def test_attribute_errors_say_what_was_sought(kind):
    """CPython tells, unless the one who raised has; not for `hasattr`, nor for the property behind a method call."""

    def program(x, o):
        seen = [hasattr(o, "missing")]
        for read in (lambda: o.missing, lambda: getattr(o, "missing"), lambda: o.missing()):  # noqa: B009
            try:
                read()
            except AttributeError as error:
                seen.append((error.name, error.obj is o, str(error)))
        return x + 1, seen

    check(program, torch.ones(1), kind(), expect_graphs=1, expect_breaks=0)
