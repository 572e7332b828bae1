"""Weak references to outside objects that the program lets go of while it is captured."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

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
