"""What the program makes another one for the next call: counters, averages, rates, lists of results."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from types import CellType
from typing import TYPE_CHECKING, Any

from stator._frames import UNBOUND
from stator.world.generators import SUSPENDED, numbers_of
from stator.world.hollow import ROWS as HOLLOW
from stator.world.hollow_keyed import Keyed

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World

Change = tuple["Path", Any, Any]  # where, before, now
KINDS: dict[type, str] = {int: "int", float: "float"}
LENGTH = "length"  # kind of a lesson: elements of a container come and go


def varying_numbers(world: World) -> Iterator[tuple[Path, str, int]]:
    """Lessons about plain numbers that the captured program has read and put other ones in the place of."""
    for path, before, now in changes(world):
        kind = KINDS.get(type(before))
        if kind is not None and (type(now) is not type(before) or now != before) and kind == kind_of(world, now):
            yield path, kind, 0


def grown_containers(world: World) -> Iterator[tuple[Path, str, int]]:
    """The same about containers that it has read as a whole, and left with another number of elements."""
    for record in {id(record): record for record in world.records.values()}.values():
        imported = record.hollow is None and id(type(record.obj)) in HOLLOW and type(record.before) is list
        if imported and len(record.inner) != len(record.before):
            yield record.path, LENGTH, 0


def kind_of(world: World, value: Any) -> str | None:
    return KINDS.get(value.__class__ if type(value) in world.varying_types else type(value))


def changes(world: World) -> Iterator[Change]:
    for namespace in {id(namespace): namespace for namespace in world.namespaces.values()}.values():
        for name, now in namespace.changes():
            yield namespace.path_of(name), namespace.before.get(name, UNBOUND), now
    for cell, path, before, now in world.cells.values():
        if type(cell) is CellType:
            yield path.cell(), before, now
    for record in {id(record): record for record in world.records.values()}.values():
        yield from items(record)


def items(record: Record) -> Iterable[Change]:
    """Items of a list or dict, variables of a generator."""
    path, before, inner = record.path, record.before, record.inner
    if type(inner) in SUSPENDED:
        return numbers_of(record)
    if isinstance(record.hollow, Keyed) and type(record.obj) in DICTS:
        return [(path.entry(key), dict.get(record.obj, key), now) for key, now in record.hollow.now.items()]
    if type(inner) is list and type(before) is list and len(before) == len(inner):
        return [(path.item(i), old, now) for i, (old, now) in enumerate(zip(before, inner, strict=True))]
    if type(inner) in DICTS and type(before) is list:
        rows = ((key, old, dict.get(inner, key, UNBOUND)) for key, old in before if type(key) in NAMES)
        return [(path.entry(key), old, now) for key, old, now in rows if now is not UNBOUND]
    return ()


NAMES = frozenset({str, int})
DICTS = frozenset({dict, defaultdict, OrderedDict, Counter})
