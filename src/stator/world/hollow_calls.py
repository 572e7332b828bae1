"""map, filter, zip and enumerate from outside, which are hollow as what they go over: iterators, or generators."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stator import _entry
from stator.errors import Again
from stator.frame import Frame, native
from stator.world.generators import SUSPENDED
from stator.world.hollow import END, ROWS, Hollow, Operation
from stator.world.hollow_iterators import HollowIterator, hollow_iterator
from stator.world.shadows import shadow

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World


class HollowCalls(Hollow):
    """A map: it has no state of its own but the iterators below it, which advance by themselves."""

    def __init__(self, world: World, record: Record, parts: Sequence[Any], sources: list[Any]) -> None:
        super().__init__(world, record)
        self.function = parts[0] if parts else None
        self.sources = sources

    def truth(self) -> Any:
        return True

    def operations(self) -> list[Operation]:
        return []

    def fill(self) -> None:
        raise Again(self.path)

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        values = self.taken(f)
        return END if values is END else self.world.call(f, self.function, values, None)

    def taken(self, f: Frame) -> Any:
        """The next value of each, or END; what gives them is not what the instruction passes on."""
        tail, f.tail = f.tail, -1
        values = []
        for source in self.sources:
            value = source.advance(f)
            if value is END:
                return END
            values.append(value)
        f.tail = tail
        return values


class HollowFilter(HollowCalls):
    """A filter, the same."""

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        f.tail = -1  # what the function answers is not the item
        while (value := self.sources[0].advance(f)) is not END:
            kept = value if self.function is None else self.world.call(f, self.function, [value], None)
            if self.world.call(f, bool, [kept], None):
                break
        return value


class HollowZip(HollowCalls):
    """A zip, the same."""

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        values = self.taken(f)
        return END if values is END else tuple(values)


class HollowEnumerate(HollowCalls):
    """An enumerate: besides, it counts."""

    def __init__(self, world: World, record: Record, parts: Sequence[Any], sources: list[Any]) -> None:
        super().__init__(world, record, (), sources)
        self.number: Any = None  # the next one, if some were given

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        values = self.taken(f)
        if values is END:
            return END
        f.tail = -1
        if self.number is None:
            counted = self.path.part("count", _entry.enumerate_count)
            self.number = self.world.enter(_entry.enumerate_count(self.obj), counted)
        pair = self.number, values[0]
        self.number = self.world.call(f, operator.add, [self.number, 1], None)
        return pair


class Driven:
    """A generator below them."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def advance(self, f: Frame) -> Any:
        return native(f, next, self.generator, END)


def hollow_calls(world: World, obj: Any, path: Path) -> Hollow | None:
    """Over iterators that can be hollow too, and generators."""
    kind, sample, first, count = KINDS[type(obj)]
    reduce: Any = type(obj).__reduce__
    _, parts, *strict = reduce(obj)
    if path in world.whole_paths or strict:
        return None
    place = path.part("parts", reduce).item(1)
    sources = []
    for i, iterator in enumerate(parts[first : None if count is None else first + count], first):
        if id(type(iterator)) not in ROWS and type(iterator) not in SUSPENDED:
            return None
        inner = world.light(iterator, place.item(i))
        source = Driven(inner) if type(inner) in SUSPENDED else world.hollow.get(id(inner))
        if not isinstance(source, (Driven, HollowIterator, HollowCalls)):
            return None
        sources.append(source)
    entered = [world.enter(part, place.item(i)) for i, part in enumerate(parts[:first])]
    return kind(world, shadow(world, obj, path, sample()), entered, sources)


def hollow_pairs(world: World, obj: Any, path: Path) -> Hollow | None:
    """Those of which C tells what they give next, if there is no generator below."""
    return hollow_iterator(world, obj, path) or hollow_calls(world, obj, path)


# How each is hollow, one that is empty, and which of its parts are iterators: from the first on, so many or all.
KINDS: dict[type, tuple[Any, Any, int, int | None]] = {
    map: (HollowCalls, lambda: map(len, ()), 1, None),
    filter: (HollowFilter, lambda: filter(None, ()), 1, None),
    zip: (HollowZip, zip, 0, None),
    enumerate: (HollowEnumerate, lambda: enumerate(()), 0, 1),
}
ROWS.update({id(cls): hollow_pairs if cls in (zip, enumerate) else hollow_calls for cls in KINDS})
