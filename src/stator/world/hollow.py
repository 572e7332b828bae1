"""Hollow shadows: outside containers and iterators that are read and written item by item.

A hollow container is an empty object of the right type that stands for the outside one. It lives in registers of the
interpreter only (stack, locals, cells, overlays of attributes). What the program does to it is answered by its class,
with a guard on just what was looked at, and writes are noted as operations. Everything else fills it first. Each kind
of container has a file of its own, which adds its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator.frame import Frame
from stator.guards.check import EQ, NOT_EMPTY

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World

LARGE = 64  # containers with more elements are hollow from the start
DECLINED: Any = object()  # an answer: fill it and do what is usual
ABSENT: Any = object()
END: Any = object()

Operation = tuple[str, tuple[Any, ...]]  # name of a method, arguments


class Hollow:
    """One hollow container or iterator."""

    methods: frozenset[str] = frozenset()  # served by `call`
    lasting = True  # outlives the registers that held it

    def __init__(self, world: World, record: Record) -> None:
        self.world = world
        self.record = record
        self.obj = record.obj
        self.path = record.path
        self.inner = record.inner

    def guard(self, check: Any, key: Any = None, path: Path | None = None) -> None:
        self.world.guards.add(self.path if path is None else path, check, key, self.world.origin())

    def item(self, f: Frame, key: Any) -> Any:
        return DECLINED

    def put(self, f: Frame, key: Any, value: Any) -> Any:
        return DECLINED

    def drop(self, f: Frame, key: Any) -> Any:
        return DECLINED

    def contains(self, f: Frame, key: Any) -> Any:
        return DECLINED

    def add_in_place(self, f: Frame, values: Any) -> Any:
        """`x += values`; None if done."""
        return DECLINED

    def number(self) -> Any:
        """The number that a tensor takes it for."""
        return DECLINED

    def is_whole(self) -> bool:
        """Whether that is an int."""
        return False

    def negated(self) -> Any:
        """`-x`."""
        return DECLINED

    def operate(self, f: Frame, function: Any, left: Any, right: Any) -> Any:
        """An operator with it on one side or both."""
        return DECLINED

    def truth(self) -> Any:
        return DECLINED

    def length(self, f: Frame) -> Any:
        return DECLINED

    def fold(self, f: Frame, function: Any) -> Any:
        """`sum`, `min` or `max` of it."""
        return DECLINED

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        """A method of `methods`, called without keywords."""
        return getattr(self, f"_{name}")(f, *args) if len(args) in ARITIES[name] else DECLINED

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        """The next element of an iterator, not entered yet if that will do, or END."""
        return DECLINED

    def operations(self) -> list[Operation]:
        """What the program did to the outside object."""
        return []

    def fill(self) -> None:
        """Import the contents into the inner object, with all guards, and apply the operations."""
        raise NotImplementedError

    def apply(self, base: Any) -> None:
        for name, args in self.operations():
            getattr(base, name)(self.inner, *args)

    def count(self) -> Any:
        """How many elements the outside container has: a number as others, which may come to vary."""
        return self.world.enter(len(self.obj), self.path.part("length", len))

    def is_some(self, before: int) -> bool:
        """Whether the outside container, with `before` elements now, is not empty."""
        if before:
            self.guard(NOT_EMPTY)
        else:
            self.guard(EQ, 0, self.path.part("length", len))
        return before > 0


ARITIES: dict[str, tuple[int, ...]] = {
    "append": (1,), "appendleft": (1,), "extend": (1,), "get": (1, 2), "setdefault": (1, 2), "update": (1,),
    "add": (1,), "discard": (1,), "remove": (1,),
}  # fmt: skip


# Iterables whose elements are there already, so that none of the program's code runs between two of them.
READY = frozenset({list, tuple, dict, set, frozenset, range, str, bytes})


def wanted(world: World, obj: Any, path: Path) -> bool:
    return len(obj) > LARGE or path in world.light_paths


ROWS: dict[int, Callable[[World, Any, Path], Hollow | None]] = {}  # by address of a type
