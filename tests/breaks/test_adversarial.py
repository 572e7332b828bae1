"""Programs that once came out otherwise than eager, with and without forced breaks."""

from __future__ import annotations

import contextlib
import copy
import io
import operator
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator.eval import forced
from stator.report import events
from tests.harness import check

X = torch.arange(6.0).reshape(2, 3)


def same(fn: Any, *args: Any, setting: str | None = None, **options: Any) -> Any:
    """Equal to eager in three calls, and nothing goes wrong inside stator."""
    forced.force(setting)
    with events.recording("error") as seen:
        report = check(fn, *args, fullgraph=False, expect_breaks=None, expect_recompiles=None, calls=3, **options)
    assert not [event.fields for event in seen if "captured with" not in event.fields["text"]]
    return report


def printing_elsewhere(x: Any) -> Any:
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print("hidden", x.shape)
    print("a", "b", sep="-")
    sys.stdout.write("w\n")
    return buffer.getvalue(), x + 1


def test_output_goes_where_it_went_then() -> None:
    """`sys.stdout` is another one by the time that deferred output is written."""
    same(printing_elsewhere, X)


def test_contents_of_shared_cells() -> None:
    def make() -> Any:
        n = 1

        def count() -> None:
            nonlocal n
            n += 1

        def program(x: Any) -> Any:
            (cell,) = count.__closure__
            before = cell.cell_contents
            count()
            after = cell.cell_contents
            cell.cell_contents = 50
            count()
            last = cell.cell_contents
            del cell.cell_contents
            try:
                cell.cell_contents  # noqa: B018
            except ValueError as error:
                text = str(error)
            cell.cell_contents = 7
            return x + n, before, after, last, text

        return program

    report = same(make(), X)
    assert not report.gained("graph_breaks")


def deep_copy(x: Any) -> Any:
    table = {"a": [x, {"b": x}]}
    other = copy.deepcopy(table)
    other["a"][0].add_(1)
    return table, other


def test_a_list_met_again_below_its_iterator() -> None:
    same(deep_copy, X)


class Broken:
    """Breaks wherever it is looked at."""

    def __init__(self, x: Any) -> None:
        self.x = x

    @property
    def size(self) -> Any:
        stator.graph_break()
        return self.x.shape[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        stator.graph_break()
        return name


def read_by_native_code(x: Any) -> Any:
    made = Broken(x)
    text = "{0.size}-{0.other}".format(made)  # noqa: UP032
    both = operator.attrgetter("size", "other")(made)
    return text, both, list(map(operator.attrgetter("size"), [made])), x + 1


def test_results_of_what_native_code_reads() -> None:
    """A property that C code reads is not the result of the call."""
    same(read_by_native_code, X)


def test_resetting_while_others_compile() -> None:
    made: list[Any] = []

    def compile_many() -> None:
        for _ in range(300):
            made.append(stator.compile(deep_copy, backend="eager"))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=compile_many) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            stator.reset()
    finally:
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert len(made) == 900


def short_lived(x: Any) -> Any:
    log = []

    def numbers() -> Iterator[Any]:
        try:
            yield x + 1
        finally:
            log.append("ended")

    first = next(numbers())
    log.append("behind")
    return first, log


@pytest.mark.parametrize("setting", [str(number) for number in range(4, 12)])
def test_what_an_instruction_consumed_ends_with_it(setting: str) -> None:
    same(short_lived, X, setting=setting)
