"""map and filter from outside: the function is called by the program, on what the iterators below give next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator.errors import Again
from stator.frame import Frame
from stator.world.door import shadow
from stator.world.hollow import END, ROWS, Hollow, Operation
from stator.world.hollow_iterators import HollowIterator

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World


class HollowCalls(Hollow):
    """A map: it has no state of its own but the iterators below it, which advance by themselves."""

    def __init__(self, world: World, record: Record, function: Any, sources: list[HollowIterator]) -> None:
        super().__init__(world, record)
        self.function = function
        self.sources = sources

    def truth(self) -> Any:
        return True

    def operations(self) -> list[Operation]:
        return []

    def fill(self) -> None:
        raise Again(self.path)

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        values = []
        for source in self.sources:
            value = source.advance(f)
            if value is END:
                return END
            values.append(value)
        return self.world.call(f, self.function, values, None)


class HollowFilter(HollowCalls):
    """A filter, the same."""

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        f.tail = -1  # what the function answers is not the item
        while (value := self.sources[0].advance(f)) is not END:
            kept = value if self.function is None else self.world.call(f, self.function, [value], None)
            if self.world.call(f, bool, [kept], None):
                break
        return value


def hollow_calls(world: World, obj: Any, path: Path) -> Hollow | None:
    """Over iterators that can be hollow too."""
    kind, sample = KINDS[type(obj)]
    reduce: Any = type(obj).__reduce__
    function, *below = reduce(obj)[1]
    parts = path.part("parts", reduce).item(1)
    sources = []
    for i, iterator in enumerate(below, 1):
        if id(type(iterator)) not in ROWS or path in world.whole_paths:
            return None
        source = world.hollow.get(id(world.light(iterator, parts.item(i))))
        if not isinstance(source, HollowIterator):
            return None
        sources.append(source)
    return kind(world, shadow(world, obj, path, sample()), world.enter(function, parts.item(0)), sources)


KINDS: dict[type, tuple[Any, Any]] = {
    map: (HollowCalls, lambda: map(len, ())),
    filter: (HollowFilter, lambda: filter(None, ())),
}
ROWS.update({id(cls): hollow_calls for cls in KINDS})
