"""Which outside objects must stay different ones for an entry to be right."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from stator.guards.check import EQ, IS, SAME
from stator.guards.path import CONST, ITEM, Path

if TYPE_CHECKING:
    from stator.world.record import Record
    from stator.world.world import World

NANS, CELLS = 1, 2  # no addresses of classes
MOST_WAYS = 4  # to a constant that is to be one object: a number that many modules have is no such thing

# Constants of these types may be equal and yet be two objects.
VALUES = frozenset({str, bytes, int, float, complex, tuple, frozenset, range, slice, torch.device, torch.Size})


class Identities:
    """Collects where the captured program depended on objects being different."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unchanged: dict[int, tuple[Any, list[Path]]] = {}  # tuples, sizes and slices that came in as they are
        self.constants: dict[int, tuple[Any, list[Path]]] = {}  # those from outside, and from where
        self.nans: dict[int, tuple[Any, Path, Any]] = {}  # those from outside: from where, and what stands for them
        self.sought: dict[int, int] = {}  # constants whose identity mattered: number of guards at that time
        self.classes: dict[int, type] = {}  # identity of all outside objects of these classes matters

    def compared(self, left: Any, right: Any) -> None:
        """`left is right` was False; if both came from outside, that must stay so."""
        if type(left) in VALUES and type(left) is type(right):
            self.one_constant(left)
            self.one_constant(right)
        records = self.world.records
        if id(left) not in records and id(right) not in records:
            return
        one, two = self.place(left), self.place(right)
        if one is not None and two is not None and not (pinned(one) and pinned(two)):
            self.world.guards.distinct([one, two], self.world.origin())

    def place(self, value: Any) -> Path | None:
        """Where an object came from that is no constant, or one with parts that is."""
        record = self.world.records.get(id(value))
        known = self.unchanged.get(id(value), (value, [None]))[1][0]
        return known if record is None else record.path

    def enter_parts(self, obj: Any, path: Path, parts: Iterable[Any], entered: Sequence[Any], make: Any) -> Any:
        """An immutable object by its parts: itself if they are, or a shadow; by two ways it is one object."""
        known = self.unchanged.get(id(obj))
        if all(map(operator.is_, entered, parts)):
            self.unchanged.setdefault(id(obj), (obj, []))[1].append(path)
            return obj
        if known is not None:  # it came in as it is by another way
            self.world.guards.add(path, SAME, known[1][0], self.world.origin())
            return obj
        return self.world.register_shadow(obj, path, make(entered))

    def enter_nan(self, value: Any, path: Path, form: Callable[[World, Any, Path], Any]) -> Any:
        """A nan that comes by two ways is one object in each call, and two nans stay two."""
        known = self.nans.get(id(value))
        if known is None:
            known = self.nans[id(value)] = (value, path, form(self.world, value, path))
        elif path is not known[1]:
            self.world.guards.add(path, SAME, known[1], self.world.origin())
        return known[2]

    def one_constant(self, value: Any) -> None:
        """Wherever this constant came from, it must be the same object and not merely an equal one."""
        guards = self.world.guards
        if id(value) in self.nans or self.sought.get(id(value)) == len(guards):
            return
        for path, check, key, origin in guards.rows():
            if check is EQ and key is value and path is not None:
                guards.add(path, IS, value, origin)
        for path in self.unchanged.get(id(value), (value, ()))[1]:
            guards.add(path, IS, value, self.world.origin())
        self.sought[id(value)] = len(guards)

    def source(self, value: Any) -> Path | None:
        """Where something came from that is guarded as it is, but of which a copy is not the same."""
        if id(value) in self.unchanged and not (type(value) is tuple and not value):  # there is one empty tuple
            return self.one_of(self.unchanged[id(value)][1])
        if type(value) in VALUES and id(value) in self.constants and not is_one_of_its_kind(value):
            paths = [path for path in self.constants[id(value)][1] if self.world.guards.has(path, EQ)]
            return self.one_of(paths) if 1 <= len(paths) <= MOST_WAYS else None
        if type(value) is weakref.ref or (type(value) is float and value != value):
            rows = self.world.guards.rows()
            return next((path for path, check, key, _ in rows if check in (EQ, IS) and key is value), None)
        return None

    def one_of(self, paths: list[Path]) -> Path:
        """The first of the ways to an object that comes out as itself: all lead to one object in each call."""
        first, *others = dict.fromkeys(paths)
        for path in others:
            self.world.guards.add(path, SAME, first, self.world.origin())
        return first

    def matters(self, cls: type) -> None:
        self.classes[id(cls)] = cls

    def guard(self, written: list[Record], tensor_class: type) -> None:
        """A write to one object must not be a write to another one: all of its class stay different."""
        for record in written:
            self.matters(type(record.obj))
        groups: dict[int, dict[Path, None]] = {}
        for record in self.world.records.values():
            cls = type(record.obj)
            if issubclass(cls, tensor_class):
                groups.setdefault(0, {})[record.path] = None
            elif id(cls) in self.classes:
                groups.setdefault(id(cls), {})[record.path] = None
        for thing, path, _ in self.world.beneath.values():
            known = self.world.records.get(id(thing))
            if known is not None and known.obj is thing:  # reached by another way since the iterator was looked at
                self.world.guards.add(path, SAME, known.path)
            elif id(type(thing)) in self.classes:
                groups.setdefault(id(type(thing)), {})[path] = None
        cells = self.world.cells.values()
        if any(now is not before for _, _, before, now in cells):
            groups[CELLS] = {path: None for _, path, _, _ in cells}
        groups[NANS] = {path: None for _, path, _ in self.nans.values()}
        for paths in groups.values():
            if not all(map(pinned, paths)) and not all(map(is_fixed_cell, paths)):
                self.world.guards.distinct(paths)
        self.guard_attributes({id(record.obj) for record in written})
        self.guard_changed()

    def guard_attributes(self, written: set[int]) -> None:
        """A dict that the program was given must not hold the attributes of an object, if one of them changes."""
        records = self.world.records.values()
        dicts = [record for record in records if type(record.obj) is dict and {str}.issuperset(map(type, record.obj))]
        changed = [record for record in dicts if id(record.obj) in written]
        for space in list(self.world.namespaces.values()):
            if not space.by_attribute or space.full or not space.real:
                continue
            for record in dicts if space.touched else changed:
                if space.real is not record.obj and space.may_be(record.obj):
                    self.world.guards.distinct([space.dict_path(), record.path])

    def guard_changed(self) -> None:
        """What the program was given must not be a container that changes in other ways than its shadow shows."""
        for path in self.world.changed.values():
            for record in list(self.world.records.values()):
                if type(record.obj) in (list, dict):
                    self.world.guards.distinct([path, record.path])


def is_one_of_its_kind(value: Any) -> bool:
    """Whether CPython has no second object that is equal: small numbers, empty and very short texts."""
    if type(value) is int:
        return -5 <= value <= 256
    return type(value) in (str, bytes) and len(value) <= 1


def pinned(path: Path) -> bool:
    """Whether the path is an object itself."""
    return path.accessor is CONST


def is_fixed_cell(path: Path) -> bool:
    """Whether the path leads from a certain function: that has the same cells for ever."""
    closure = path.parent if path.accessor is ITEM else None
    function = closure.parent if closure is not None and closure.key == "__closure__" else None
    return function is not None and function.accessor is CONST
