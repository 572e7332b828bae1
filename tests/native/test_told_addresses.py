"""Texts that tell where an object lies are those of the object at hand."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


class Plain:
    pass


REGISTRY: dict[str, Any] = {}
KNOWN = Plain()


def over_a_break(x: Any) -> Any:
    made = object()
    before = repr(made)
    stator.graph_break()
    return before == repr(made), x + 1


def of_several_kinds(x: Any) -> Any:
    made, function = Plain(), lambda: 3
    texts = {"f": f"{made}", "s": (1, str(function)), "%": "%s" % made, "format": "{!r}".format(made)}  # noqa: UP031, UP032
    stator.graph_break()
    return [texts["f"] == str(made), texts["s"][1] == repr(function), texts["%"] == texts["format"] == str(made)], x + 1


def in_a_message(x: Any) -> Any:
    made = Plain()
    try:
        raise ValueError(made)
    except ValueError as error:
        message = str(error)
    stator.graph_break()
    return message == repr(made), x + 1


@pytest.mark.parametrize("program", [over_a_break, of_several_kinds, in_a_message])
def test_objects_of_the_program(program: Any) -> None:
    calls = [(torch.ones(2),)] * 3
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_breaks=None, expect_recompiles=None)


def test_each_call_has_objects_of_its_own() -> None:
    def program(x: Any) -> Any:
        made = Plain()
        REGISTRY[repr(made)] = made
        return x + 1

    REGISTRY.clear()
    compiled = stator.compile(program, backend="eager")
    for _ in range(4):
        compiled(torch.ones(2))
    assert len(REGISTRY) == 4 and all(repr(one) == text for text, one in REGISTRY.items())


@pytest.mark.parametrize("text", [repr, "{}".format, lambda one: f"<{one}>", lambda one: "%s" % one])  # noqa: UP031
def test_objects_from_outside(text: Any) -> None:
    def program(x: Any, one: Any) -> Any:
        return x + 1 if text(one) == text(KNOWN) else x - 1, text(one)

    compiled = stator.compile(program, backend="eager")
    for one in (Plain(), KNOWN, Plain(), KNOWN, Plain()):
        expected, mine = program(torch.ones(1), one), compiled(torch.ones(1), one)
        assert mine == expected


def test_printed(capsys: Any) -> None:
    def program(x: Any, kept: list[Any]) -> Any:
        kept.append(Plain())
        print(kept)
        return x + 1

    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        kept: list[Any] = []
        compiled(torch.ones(1), kept)
        assert capsys.readouterr().out == f"{kept}\n"


def test_numbers_where_nothing_can_lie() -> None:
    """A text of the program that only looks like an address goes over a break as others do."""

    def program(x: Any) -> Any:
        text = "fault at 0x12 and at 0x7f31c0de0001" + "!"
        stator.graph_break()
        return x + len(text), text

    check(program, torch.ones(2), fullgraph=False, expect_breaks=1)


class Other:
    pass


def of_a_lock(x: Any) -> Any:
    with LOCK:
        text = repr(LOCK)
    return x + 1, text.partition(" at ")[0], f"{LOCK}".partition(" at ")[0]


def of_a_reference(x: Any) -> Any:
    return x + 1, repr(REFERENCES[0]).partition(";")[2][:4]


def of_a_function(x: Any) -> Any:
    return x + 1, str([of_nothing]).partition(" at ")[0]


def of_nothing() -> None:
    pass


LOCK = threading.Lock()
REFERENCES: list[Any] = []


@pytest.mark.parametrize("program", [of_a_lock, of_a_reference, of_a_function])
def test_what_else_a_text_tells(program: Any) -> None:
    """A lock may be held by now, an object gone, a function be called something else."""

    def outcome(function: Any) -> list[Any]:
        target = Other()
        REFERENCES[:] = [weakref.ref(target)]
        texts = [function(torch.ones(1))[1:]]
        del target
        of_nothing.__qualname__ = "renamed"
        texts.append(function(torch.ones(1))[1:])
        of_nothing.__qualname__ = "of_nothing"
        return texts

    assert outcome(stator.compile(program, backend="eager")) == outcome(program)


def test_a_lock_that_somebody_took() -> None:
    def program(x: Any, lock: Any) -> Any:
        return x + 1, repr(lock).partition(" ")[0]

    compiled = stator.compile(program, backend="eager")
    lock = threading.Lock()
    assert compiled(torch.ones(1), lock)[1] == "<unlocked"
    lock.acquire()
    assert compiled(torch.ones(1), lock)[1] == "<locked"
