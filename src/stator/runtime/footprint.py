"""Whether a stretch of the captured program changed anything that was there before it."""

from __future__ import annotations

import types
from collections import deque
from typing import Any

from stator import _frames
from stator.world.generators import has_moved, state_of

Contents = tuple[Any, ...]

# How the contents of a container are read without asking code of a subclass.
READERS: tuple[tuple[type, Any], ...] = (
    (list, lambda obj: tuple(list.__iter__(obj))),
    (tuple, lambda obj: tuple(tuple.__iter__(obj))),
    (dict, lambda obj: tuple(part for pair in dict.items(obj) for part in pair)),
    (set, lambda obj: tuple(set.__iter__(obj))),
    (deque, lambda obj: tuple(deque.__iter__(obj))),
    (types.CellType, lambda obj: (_frames.cell_get(obj),)),
    (types.GeneratorType, _frames.generator_values),
    (types.CoroutineType, _frames.generator_values),
)


def contents(obj: Any) -> Contents | None:
    """What a container or cell holds; None for anything else."""
    return next((read(obj) for cls, read in READERS if issubclass(type(obj), cls)), None)


def same(before: Contents, now: Contents | None) -> bool:
    return now is not None and len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))


class Footprint:
    """The outside world, and what can be reached from `roots`, at one moment."""

    def __init__(self, host: Any, roots: list[Any], alone: bool = False) -> None:
        self.host = host
        self.known: dict[int, tuple[Any, Contents]] = {}
        if alone:  # what can be reached is all that counts
            self.walk(roots)
            return
        self.records = {id(record): record for record in host.records.values()}
        self.writes = writes(host)
        self.walk(roots)
        for record in self.records.values():
            if record.hollow is None and record.inner is not record.obj:
                self.walk([record.inner])

    def walk(self, roots: list[Any]) -> None:
        """Notes what containers hold, and instances that the program made."""
        waiting = list(roots)
        while waiting:
            obj = waiting.pop()
            held = contents(obj)
            if (
                held is None
                and id(obj) not in self.host.records
                and not issubclass(type(obj), (type, types.ModuleType))
            ):
                obj = _frames.instance_dict(obj)
                held = contents(obj)
            if held is not None and id(obj) not in self.known:
                self.known[id(obj)] = obj, held
                waiting.extend(held)

    def objects(self) -> list[Any]:
        """What is held by something that can be reached."""
        return [value for _, values in self.known.values() for value in values]

    def leave_out(self, other: Footprint) -> None:
        """Nothing counts that could be reached from elsewhere."""
        self.known = {key: row for key, row in self.known.items() if key not in other.known}

    def changed(self) -> bool:
        """Whether anything is different now. What came in since then must be as it came."""
        return (
            writes(self.host) != self.writes
            or self.differs()
            or any(is_written(record) for record in self.host.records.values() if id(record) not in self.records)
        )

    def differs(self) -> bool:
        """Whether something that can be reached holds something else now."""
        return any(not same(held, contents(obj)) for obj, held in self.known.values())


def is_written(record: Any) -> bool:
    """Whether the shadow of a list, dict or set is no longer what was imported."""
    before = record.before
    if record.hollow is not None or record.inner is record.obj or before is None:
        return False
    if issubclass(type(record.inner), (types.GeneratorType, types.CoroutineType)):
        return has_moved(before, state_of(record.inner))
    if type(before) is tuple and len(before) == 2 and type(before[1]) is list:  # of a defaultdict
        before = before[1]
    if type(before) is not list:
        return False
    flat = [part for pair in before for part in pair] if issubclass(type(record.inner), dict) else before
    return not same(tuple(flat), contents(record.inner))


def mark(arg: Any) -> Any:
    """Identity of what an operation is given; tuples and slices are made anew each time it is described."""
    return tuple(map(id, arg)) if type(arg) is tuple else arg if type(arg) is slice else id(arg)


def writes(host: Any) -> list[Any]:
    """The effects so far that are written down as such; values by identity."""
    found: list[Any] = [len(host.effects), len(host.locks), [id(value) for _, value in host.ambient.changes()]]
    for record in {id(r): r for r in host.records.values()}.values():
        if record.hollow is not None and (done := record.hollow.operations()):
            found.append((id(record), [(name, *map(mark, args)) for name, args in done]))
        for name, (before, now, _) in (record.extra or {}).items():
            if now is not before:
                found.append((id(record), name, id(now)))
    for namespace in {id(n): n for n in host.namespaces.values()}.values():
        found.extend((id(namespace), name, id(value)) for name, value in namespace.changes())
    found.extend((id(cell), id(now)) for cell, _, before, now in host.cells.values() if now is not before)
    found.extend((key, id(now)) for key, (_, before, now) in host.class_writes.items() if now is not before)
    return found
