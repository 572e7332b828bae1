"""Paths are interned, weakly, and readable."""

from __future__ import annotations

import gc
import operator
import sys
import weakref

import pytest

from stator.guards import arg, const
from stator.guards.path import ATTR, Missing, Path


def test_equal_paths_are_one_object() -> None:
    assert arg(0) is arg(0)
    assert arg(0) is not arg(1)
    assert arg(0).attr("x").item(3) is arg(0).attr("x").item(3)
    assert arg(0).child(ATTR, "x") is arg(0).attr("x")
    assert arg(0).attr("x") is not arg(0).get("x")
    assert arg(0).entry("x") is not arg(0).attr("x")


def test_paths_do_not_keep_what_can_die() -> None:
    class Thing:
        pass

    thing = Thing()
    root = const(thing)
    path = root.attr("x").item(0)
    seen = weakref.ref(thing)
    assert const(thing) is root and root.load(()) is thing
    address = id(thing)
    del thing
    gc.collect()
    assert seen() is None and path.describe() == "something that is gone.x[0]"
    with pytest.raises(Missing):
        root.load(())
    others = [Thing() for _ in range(100)]
    assert all(const(other) is not root for other in others), address in map(id, others)


def test_paths_keep_what_cannot_tell() -> None:
    inner = {1}
    path = const([inner]).item(0)
    seen = weakref.ref(inner)
    del inner
    gc.collect()
    assert seen() is not None and path.load(()) == {1}
    del path
    gc.collect()
    assert seen() is None


def test_describe() -> None:
    self = arg(0)
    texts: dict[str, Path] = {
        "self": self,
        "arg7": arg(7),
        "self.layers[3].cfg['act']": self.attr("layers").item(3).attr("cfg").entry("act"),
        "type(self).__dict__['f']": self.cls().class_item("f"),
        "list(self)[2]": self.key_at(2),
        "self.__dict__[(1, 2)]": self.fields().entry((1, 2)),
        "self.__closure__[0].cell_contents": self.get("__closure__").item(0).cell(),
        "self.func": self.part("func", operator.attrgetter("func")),
        "sys.path": const(sys).attr("path"),
        "globals of sys['path']": const(sys.__dict__).entry("path"),
    }
    for text, path in texts.items():
        assert path.describe(["self"]) == text
