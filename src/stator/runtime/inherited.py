"""What a capture that ends at a break tells the continuation: numbers that vary before a break vary behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stator.code.decode import units
from stator.guards import path as paths
from stator.guards.path import Path
from stator.runtime.continuation import Break
from stator.runtime.learned import Lesson
from stator.runtime.unrolling import Loops
from stator.shapes.scalar import TracedInt
from stator.tensors.traced import TracedTensor
from stator.world.lazy import Lazy

NUMBERS = frozenset({"size", "int"})


def lessons(at: Break, results: int, known: Iterable[Lesson], loops: Loops) -> set[Lesson]:
    """Sizes and ints among the values carried over a break that are symbols; the results come before these.

    An int that a loop gives will be another one the next time, and so will a variable that says whether to go round.
    `known` is what the capture itself was told, also of values that it passes on without a look.
    """
    inner, item = at.frames[-1], paths.arg(0)
    name = units(inner.code)[inner.unit][0]
    found: set[Lesson] = set()
    if name == "FOR_ITER" and results == 1:
        found = {(item, "int", 0), (item.item(0), "int", 0)}
    elif name == "COMPARE_OP" and inner.unit in loops.units.get(inner.code, ()):
        compared = [at.values[number] for number in inner.operands if type(at.values[number]) is int]
        same = (number for number in inner.slot_values if any(at.values[number] is value for value in compared))
        found = {(paths.arg(number + results), "int", 0) for number in same}
    for number, value in enumerate(at.values):
        path = paths.arg(number + results)
        if type(value) is Lazy:
            found.update(
                (path, kind, detail) for place, kind, detail in known if place is value.path and kind in NUMBERS
            )
        else:
            found.update(_lessons(value, path))
    return found


def _lessons(value: Any, path: Path) -> Iterator[Lesson]:
    kind = type(value)
    if kind is TracedTensor:
        yield from ((path, "size", dim) for dim, size in enumerate(value._meta.size) if _varies(size))
    elif kind is TracedInt and _varies(value):
        yield path, "int", 0
    elif kind is tuple or kind is list:
        for i, item in enumerate(value):
            if type(item) is TracedTensor or type(item) is TracedInt:
                yield from _lessons(item, path.item(i))


def _varies(number: Any) -> bool:
    return type(number) is TracedInt and type(number.symbols.unknowns.settled(number.number)) is not int
