"""Weak references to outside objects that the program lets go of while it is captured."""

from __future__ import annotations

import gc
import os
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import stator


class Thing:
    def __init__(self) -> None:
        self.items = [Text(c) for c in "xyz"]
        self.one: Any = Text("one")
        self.named = {"a": Text("a")}


class Text(str): ...


def asked(thing: Any) -> Any:
    reference = weakref.ref(thing.items[-1])
    thing.items.pop()
    return reference() is None


def attribute(thing: Any) -> Any:
    reference = weakref.ref(thing.one)
    thing.one = None
    return reference()


def moved(thing: Any) -> Any:
    reference = weakref.ref(thing.one)
    thing.one, thing.items[0] = None, thing.one
    return reference() is thing.items[0]


def in_a_dict(thing: Any) -> Any:
    references = weakref.WeakValueDictionary(thing.named)
    thing.named["a"] = "other"
    return list(references.items())


def counted(thing: Any) -> Any:
    known = weakref.WeakSet(thing.items)
    before = len(known)
    del thing.items[1:]
    return before, len(known)


def behind_a_break(thing: Any) -> Any:
    known = weakref.WeakSet(thing.items)
    thing.items.pop()
    gc.collect()
    stator.graph_break()
    return len(known), sorted(known)


def called_back(thing: Any) -> Any:
    log: list[str] = []
    reference = weakref.ref(thing.one, lambda _: log.append("gone"))
    thing.one = None
    return reference() is None, log


@pytest.mark.parametrize("fn", [asked, attribute, moved, in_a_dict, counted, behind_a_break, called_back])
def test_dropped(fn: Callable[[Any], Any]) -> None:
    compiled = stator.compile(fn, backend="eager", fullgraph=False)
    want = fn(Thing())
    assert [compiled(Thing()), compiled(Thing())] == [want, want]


def test_kept() -> None:
    """What is merely moved is captured whole."""
    assert stator.compile(moved, backend="eager", fullgraph=True)(Thing())


class Ending:
    def __del__(self) -> None:
        LOG.append("end")


class Plain: ...


LOG: list[str] = []


def deleted(_: Any) -> Any:
    LOG.clear()
    thing = Ending()
    stator.graph_break()
    del thing
    return list(LOG)


def replaced(_: Any) -> Any:
    LOG.clear()
    thing: Any = Ending()
    stator.graph_break()
    thing = LOG
    return list(thing)


def kept_by_another(_: Any) -> Any:
    LOG.clear()
    thing = Ending()
    other = [thing]
    stator.graph_break()
    del thing
    return list(LOG), len(other)


def suspended(_: Any) -> Any:
    LOG.clear()

    def numbers() -> Any:
        try:
            yield 1
        finally:
            LOG.append("closed")

    given = numbers()
    next(given)
    stator.graph_break()
    del given
    return list(LOG)


def finalized(_: Any) -> Any:
    LOG.clear()
    thing = Plain()
    weakref.finalize(thing, LOG.append, "finalized")
    stator.graph_break()
    del thing
    return list(LOG)


def known_weakly(_: Any) -> Any:
    known: Any = weakref.WeakSet()
    thing = Plain()
    known.add(thing)
    stator.graph_break()
    before = len(known)
    del thing
    return before, len(known)


@pytest.mark.parametrize("fn", [deleted, replaced, kept_by_another, suspended, finalized, known_weakly])
def test_ends_behind_a_break(fn: Callable[[Any], Any]) -> None:
    compiled = stator.compile(fn, backend="eager", fullgraph=False)
    want = fn(0)
    gc.collect()
    assert [compiled(0), compiled(0)] == [want, want]
    LOG.clear()
    gc.collect()
    assert LOG == []  # nothing is left that only the collector ends


@pytest.mark.parametrize(
    "fn",
    [
        lambda thing: weakref.WeakSet([thing]),
        lambda thing: weakref.WeakKeyDictionary({thing: 1}),
        lambda thing: weakref.WeakValueDictionary({1: thing}),
    ],
)
def test_callbacks_come_out(fn: Callable[[Any], Any]) -> None:
    """Collections of weak references made by a capture lose what dies later."""
    thing = Plain()
    made = stator.compile(fn, backend="eager", fullgraph=True)(thing)
    assert len(made) == 1
    del thing
    assert len(made) == 0


def in_a_cycle(_: Any) -> Any:
    LOG.clear()
    thing: Any = Plain()
    thing.itself, thing.ending = thing, Ending()
    reference = weakref.ref(thing)
    stator.graph_break()
    del thing
    gc.collect()
    return reference() is None, list(LOG)


def test_collected() -> None:
    compiled = stator.compile(in_a_cycle, backend="eager", fullgraph=False)
    assert [compiled(0), compiled(0)] == [(True, ["end"])] * 2


def test_collection_is_an_effect() -> None:
    """Also of the calls that follow the capture."""

    def fn(x: Any) -> Any:
        gc.collect()
        return x

    for _ in range(3):  # what other tests have left would end while this is captured
        gc.collect()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        thing: Any = Plain()
        thing.itself = thing
        reference = weakref.ref(thing)
        del thing
        assert reference() is not None
        compiled(0)
        assert reference() is None


class Tells:
    def __init__(self, told: list[str]) -> None:
        self.told = told
        self.itself: Any = None

    def __del__(self) -> None:
        self.told.append("gone")


TOLD: list[str] = []


def left_in_a_cycle(x: Any) -> Any:
    for _ in range(3):
        one = Tells(TOLD)
        one.itself = one
    return x + 1


def left_in_a_closure(x: Any) -> Any:
    one = Tells(TOLD)

    def held() -> Any:
        return one

    return x + 1


@pytest.mark.parametrize(("program", "whole"), [(left_in_a_cycle, False), (left_in_a_closure, True)])
def test_left_behind(program: Callable[[Any], Any], whole: bool) -> None:
    """What dies later than the capture that made it: its finalizer runs in CPython, as often as in eager."""
    threshold = gc.get_threshold()
    found = []
    for run in (program, stator.compile(program, backend="eager")):
        TOLD.clear()
        gc.set_threshold(1, 1, 1)  # also while the entry is written
        try:
            run(torch.ones(1))
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        found.append(list(TOLD))
    assert found[0] == found[1] != []
    whole_graph = stator.compile(program, backend="eager", fullgraph=True)
    TOLD.clear()
    with nullcontext() if whole else pytest.raises(stator.Unsupported, match="left behind"):
        for _ in range(2):
            whole_graph(torch.ones(1))
        assert TOLD == found[0] * 2


async def waits() -> None: ...


def drops_a_coroutine(x: Any) -> Any:
    later: Any = waits()
    y = x + 1
    del later
    return y


def sees_the_warning(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        waits()
    return x + 1, [str(each.message) for each in seen]


@pytest.mark.parametrize("program", [drops_a_coroutine, sees_the_warning])
def test_never_awaited(program: Callable[[Any], Any]) -> None:
    """The end of a coroutine that was never started warns at the line of the program, in each call."""
    found = []
    for run in (program, stator.compile(program, backend="eager")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results = [run(torch.ones(1)) for _ in range(2)]
        found.append((str(results), [(str(each.message), each.filename, each.lineno) for each in seen]))
    assert found[0] == found[1]
    assert "never awaited" in str(found[0])


class Asks:
    def __del__(self) -> None:
        os.getloadavg()


def asks_at_its_end(x: Any) -> Any:
    one = Asks()
    y = x + 1
    del one
    return y


def asks_when_closed(x: Any) -> Any:
    def items() -> Any:
        try:
            yield 1
        finally:
            os.getloadavg()

    for item in items():
        return x + item


@pytest.mark.parametrize("program", [asks_at_its_end, asks_when_closed])
def test_giving_up_is_silent(program: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a finalizer does cannot be captured: nobody hears of exceptions that the program does not raise."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    assert stator.compile(program, backend="eager")(torch.ones(1)).item() == 2.0
    assert told == []
