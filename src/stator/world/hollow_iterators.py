"""Hollow iterators: what they give next is read without advancing them."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator import _entry
from stator.errors import Again
from stator.frame import Frame
from stator.guards.check import LEN, PRESENT, TYPE_IS
from stator.world.hollow import END, ROWS, Hollow
from stator.world.lazy import Lazy
from stator.world.shadows import shadow

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World

WINDOW = 64


def window_start(taken: int) -> int:
    """Where the window of an element begins: 0, 1, 16, 64, 128, …; most programs look at the next one or at all."""
    return taken - taken % WINDOW if taken >= WINDOW else 16 if taken >= 16 else min(taken, 1)


class HollowIterator(Hollow):
    """An outside iterator: elements are read without advancing it; that is done once, at the end."""

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.taken = 0
        self.ended = 0
        self.windows: dict[int, tuple[Any, ...]] = {}
        self.below = _entry.beneath(self.obj)
        path = self.path.beneath()
        self.guard(LEN, len(self.below), path)
        for i, thing in enumerate(self.below):
            self.guard(TYPE_IS, type(thing), path.item(i))
            world.beneath[id(thing)] = (thing, path.item(i), self)

    def truth(self) -> Any:
        return True

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        if any(self.world.is_reachable(thing) for thing in self.below):
            self.fill()
        start = window_start(self.taken)
        window = self.windows.get(start)
        if window is None:
            window = self.windows[start] = self.window(start)
        path = self.path.upcoming(start)
        at = self.taken - start
        if at == len(window):
            self.guard(LEN, at, path)
            self.ended += 1
            return END
        self.taken += 1
        self.guard(PRESENT, None, path.item(at))
        element = Lazy(window[at], path.item(at))
        return element if lazily else element.force(self.world)

    def window(self, start: int) -> tuple[Any, ...]:
        """The elements from here on; there may be no telling: the end of a strict zip, a chain of unknown kinds."""
        try:
            return _entry.upcoming(start, self.obj)
        except Exception:
            raise Again(self.path) from None

    def fill(self) -> None:
        raise Again(self.path)


def hollow_iterator(world: World, obj: Any, path: Path) -> Hollow | None:
    """Not over what the program reaches by another way too: it would see changes."""
    try:
        below = _entry.beneath(obj)
        _entry.upcoming(0, obj)
    except Exception:  # of an unknown kind, or its dict has changed
        return None
    known = world.beneath.get(id(obj))
    if known is not None:
        known[2].fill()
    if any(map(world.is_reachable, below)):
        return None
    return HollowIterator(world, shadow(world, obj, path, SAMPLES[type(obj)]()))


# Iterators of each kind, empty where that is possible.
MAKERS: tuple[Callable[[], Any], ...] = (
    lambda: iter([]), lambda: iter(()), lambda: iter(""), lambda: iter("\u0100"), lambda: iter(b""),
    lambda: iter(bytearray()), lambda: iter(range(0)), lambda: reversed([]), lambda: reversed(()),
    lambda: iter({}), lambda: iter({}.values()), lambda: iter({}.items()), lambda: iter(set()),
    lambda: reversed({}), lambda: reversed({}.values()), lambda: reversed({}.items()), lambda: iter(OrderedDict()),
    lambda: iter(deque()), lambda: reversed(deque()),
    lambda: enumerate(()), zip, itertools.count, lambda: itertools.cycle(()), lambda: itertools.repeat(None, 0),
    itertools.chain, lambda: itertools.islice((), 0),
)  # fmt: skip
SAMPLES: dict[type, Callable[[], Any]] = {type(make()): make for make in MAKERS}

ROWS.update({id(kind): hollow_iterator for kind in SAMPLES})
