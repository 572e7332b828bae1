"""Attributes and slots of container subclasses: read, guarded and written back."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import stator


class Items(list):
    pass


class Slotted(set):
    __slots__ = ("a", "b")


class Pair(tuple):
    pass


def compiled(program: Any) -> Any:
    return stator.compile(program, backend="eager", fullgraph=True)


def test_attributes_of_shadows_are_effects() -> None:
    items, slotted, pair, deep, call = Items([1]), Slotted([1]), Pair((1, 2)), Pair(([],)), partial(len)
    items.old, items.gone, slotted.a, call.u = [0], 1, 1, 3

    def change() -> None:
        items.old, items.new = 5, 6
        del items.gone
        items.append(3)
        slotted.b = slotted.a
        del slotted.a
        pair.z, deep.z = 1, 2
        deep[0].append(4)
        call.u, call.v = 4, []

    compiled(change)()
    assert (vars(items), items) == ({"old": 5, "new": 6}, [1, 3])
    assert slotted.b == 1
    assert not hasattr(slotted, "a")
    assert (vars(pair), vars(deep), deep) == ({"z": 1}, {"z": 2}, ([4],))
    assert vars(call) == {"u": 4, "v": []}


def test_absence_of_an_attribute_is_guarded() -> None:
    items = Items()
    ask = compiled(lambda: hasattr(items, "late"))
    assert ask() is False
    items.late = 1
    assert ask() is True


def test_defaultdict_factory_and_items() -> None:
    table: Any = defaultdict(list, {1: []})

    def change() -> int:
        table[2].append(4)
        table[1].append(9)
        table.default_factory = int
        return table[7]

    assert compiled(change)() == 0
    assert table == {1: [9], 2: [4], 7: 0}
    assert table.default_factory is int


class Strict:
    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)


def test_object_setattr_below_a_watched_class() -> None:
    outside = Strict()

    def change() -> tuple[int, int]:
        class Inner(Strict):
            pass

        inner = Inner()
        inner.a, outside.b = 1, 2
        return inner.a, outside.b

    assert compiled(change)() == (1, 2)
    assert vars(outside) == {"b": 2}
