"""Hollow lists and deques."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any

from stator import _entry
from stator.frame import Frame
from stator.guards.check import EQ, LEN, PRESENT
from stator.guards.path import ARG
from stator.world.containers import fill_deque, fill_list
from stator.world.hollow import DECLINED, READY, ROWS, Hollow, Operation, wanted
from stator.world.shadows import shadow

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World

# What lists of plain numbers come to; from Python 3.12 on a sum cannot go on from a part of it without loss.
FOLDS: dict[Any, Any] = {function: _entry.plain_fold(function) for function in (sum, min, max)}
FEW = 8
BOOLS = 1  # what `plain_kind` says of them
COMPENSATED = frozenset({sum} if sys.version_info >= (3, 12) else ())


def summaries(path: Path) -> Iterable[Path]:
    """Numbers about all elements of a container: they vary as its length does."""
    yield path.part("length", len)
    for function, folded in FOLDS.items():
        yield path.part(function.__name__, folded)


class HollowList(Hollow):
    """The outside list without its last `popped` items, then `added`."""

    methods = frozenset({"append", "extend", "pop"})

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.popped = 0
        self.added: list[Any] = []

    def item(self, f: Frame, key: Any) -> Any:
        if type(key) is slice:
            return self.slice(f, key)
        if type(key) is not int:
            return DECLINED
        size = list.__len__(self.obj)
        if key < 0:
            if -key <= len(self.added):
                return self.added[key]
            key += len(self.added) - self.popped
            if -key > size:
                return DECLINED
        elif self.popped or key >= size:
            return DECLINED
        return self.world.light(list.__getitem__(self.obj, key), self.path.item(key))

    def slice(self, f: Frame, key: Any) -> Any:
        """The last ones or the first ones, if there are so many; as they are all if there are fewer of the last."""
        size = list.__len__(self.obj) - self.popped
        if key.step is not None or not {type(key.start), type(key.stop)} <= {int, NoneType}:
            return DECLINED
        if key.stop is None and key.start is not None and key.start < 0:
            numbers = range(max(key.start, -size - len(self.added)), 0)
            if len(numbers) < -key.start:
                self.guard(LEN, size + self.popped)
        elif not key.start and key.stop is not None and 0 <= key.stop <= size:
            numbers = range(key.stop)
        else:
            return DECLINED
        found = [self.item(f, number) for number in numbers]
        if any(value is DECLINED for value in found):
            return DECLINED
        return [self.world.settled(value) for value in found]

    def fold(self, f: Frame, function: Any) -> Any:
        kind = _entry.plain_kind(self.obj)
        if self.popped or (self.added and function in COMPENSATED) or (kind != BOOLS and self.is_short()):
            return DECLINED
        if kind == BOOLS and function is not sum:
            return DECLINED
        folded = FOLDS[function]
        before = folded(self.obj)
        if before is None:
            return DECLINED
        value = self.world.enter(before, self.path.part(function.__name__, folded))
        return self.world.call(f, function, [[value, *self.added]], None) if self.added else value

    def is_short(self) -> bool:
        """Whether it is a few numbers, always as many: they are numbers that vary, and so is what is made of them."""
        return len(self.obj) <= FEW and (self.path.part("length", len), "int", 0) not in self.world.varying

    def add_in_place(self, f: Frame, values: Any) -> Any:
        return self._extend(f, values) if type(values) in (list, tuple) else DECLINED

    def truth(self) -> Any:
        if self.added:
            return True
        return DECLINED if self.popped else self.is_some(list.__len__(self.obj))

    def length(self, f: Frame) -> Any:
        return self.count() + (len(self.added) - self.popped)

    def _append(self, f: Frame, value: Any) -> None:
        self.added.append(value)

    def _extend(self, f: Frame, values: Any) -> Any:
        return self.added.extend(values) if type(values) in READY else DECLINED

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        return self.pop(f, args) if name == "pop" else super().call(f, name, args)

    def pop(self, f: Frame, args: list[Any]) -> Any:
        if args and args != [-1]:
            return DECLINED
        if self.added:
            return self.added.pop()
        value = self.item(f, -1)
        if value is not DECLINED:
            self.guard(PRESENT, None, self.path.item(-1 - self.popped))
            self.popped += 1
        return value

    def operations(self) -> list[Operation]:
        done: list[Operation] = []
        if self.popped:
            done.append(("__delitem__", (slice(-self.popped, None),)))
        if self.added:
            done.append(("append", (self.added[0],)) if len(self.added) == 1 else ("extend", (tuple(self.added),)))
        return done

    def fill(self) -> None:
        fill_list(self.world, self.record)
        self.apply(list)


class HollowDeque(Hollow):
    methods = frozenset({"append", "appendleft", "extend"})

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.done: list[Operation] = []
        self.left = False

    def item(self, f: Frame, key: Any) -> Any:
        size, added, most = len(self.obj), 0 if self.left else len(self.done), self.obj.maxlen
        if type(key) is not int or (self.done and self.left):
            return DECLINED
        if key < 0:
            if most is not None and -key > most:
                return DECLINED
            if -key <= added:
                return self.done[key][1][0]
            key += added
        elif self.done and most is not None:
            key += self.pushed_out(added, most)
        if not -size <= key < size:
            return DECLINED
        return self.world.light(deque.__getitem__(self.obj, key), self.path.seq(key))

    def pushed_out(self, added: int, most: int) -> int:
        """How many of the outside elements had to go for those that were added."""
        before = self.count()
        return 0 if before + added <= most else int(before + added - most)

    def truth(self) -> Any:
        return DECLINED if self.done else self.is_some(len(self.obj))

    def length(self, f: Frame) -> Any:
        number, most = self.count() + len(self.done), self.obj.maxlen
        return self.world.call(f, min, [number, most], None) if self.done and most is not None else number

    def _append(self, f: Frame, value: Any) -> None:
        self.done.append(("append", (value,)))

    def _appendleft(self, f: Frame, value: Any) -> None:
        self.done.append(("appendleft", (value,)))
        self.left = True

    def _extend(self, f: Frame, values: Any) -> Any:
        if type(values) not in READY:
            return DECLINED
        return self.done.extend(("append", (value,)) for value in values)

    def operations(self) -> list[Operation]:
        return self.done

    def fill(self) -> None:
        fill_deque(self.world, self.record)
        self.apply(deque)


def hollow_list(world: World, obj: Any, path: Path) -> Hollow | None:
    carried = bool(world.carried) and path.accessor is ARG  # over a break: perhaps it grows in a loop
    return HollowList(world, shadow(world, obj, path, [])) if carried or wanted(world, obj, path) else None


def hollow_deque(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path):
        return None
    world.guards.add(path.get("maxlen"), EQ, obj.maxlen, world.origin())
    return HollowDeque(world, shadow(world, obj, path, deque(maxlen=obj.maxlen)))


ROWS.update({id(list): hollow_list, id(deque): hollow_deque})
