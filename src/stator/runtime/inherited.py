"""What a capture that ends at a break tells the continuation: numbers that vary before a break vary behind it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from types import CellType, ModuleType
from typing import TYPE_CHECKING, Any

import torch

from stator._frames import UNBOUND, cell_get, instance_dict, is_heap_type
from stator.code.decode import units
from stator.code.loops import loop_variables
from stator.guards import path as paths
from stator.guards.path import Path
from stator.runtime.continuation import Break
from stator.runtime.learned import Lesson
from stator.runtime.unrolling import Loops
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedInt
from stator.shapes.texts import TracedText
from stator.tensors.rules.layout import surely
from stator.tensors.traced import TracedTensor
from stator.world.generators import SUSPENDED, values_of
from stator.world.lazy import Lazy
from stator.world.rewritten import KINDS, changes

if TYPE_CHECKING:
    from stator.world.world import World

NUMBERS = frozenset({"size", "count", "stride", "int", "float"})
NUMBER_TYPES: dict[type, type] = {int: int, TracedInt: int, float: float, TracedFloat: float}
CALLS = frozenset({"CALL", "CALL_FUNCTION_EX"})
TENSORS = frozenset({torch.Tensor, torch.nn.Parameter, TracedTensor})
SYMBOLIC = frozenset({TracedTensor, TracedInt, TracedFloat})

Places = dict[Path, list[Path]]


def lessons(at: Break, results: int, known: Iterable[Lesson], loops: Loops, world: World) -> set[Lesson]:
    """Sizes and numbers among the values carried over a break that are symbols; the results come before these.

    An int that a loop gives will be another one the next time, and so will a variable that says whether to go round,
    and what a call makes of symbols.
    `known` is what the capture itself was told, also of values that it passes on without a look.
    """
    inner = at.frames[-1]
    name = units(inner.code)[inner.unit][0]
    found: set[Lesson] = set()
    if name == "FOR_ITER" and results == 2:
        item = paths.arg(1)  # above the iterator
        found = {(item, "int", 0), (item.item(0), "int", 0)}
    elif name == "COMPARE_OP" and inner.unit in loops.units.get(inner.code, ()):
        compared = [at.values[number] for number in inner.operands if type(at.values[number]) is int]
        same = (number for number in inner.slot_values if any(at.values[number] is value for value in compared))
        found = {(paths.arg(number + results), "int", 0) for number in same}
    elif name in CALLS and results == 1:
        found = set(_results(at.values[number] for number in inner.operands if number >= 0))
    for number, value in enumerate(at.values):
        path = paths.arg(number + results)
        if type(value) is not Lazy:
            found.update(_lessons(value, path))
            if type(value) not in SYMBOLIC and id(value) not in world.records and id(value) not in world.cells:
                for part, place in _parts(value, path):
                    found.update(_lessons(part, place))
    found.update((paths.arg(number + results), "int", 0) for number in _items(at))
    places = _places(at, results, world)
    found.update(written(places, world))
    for known_at, kind, detail in known:
        if kind in NUMBERS:
            found.update((behind, kind, detail) for behind in _rebased(known_at, places))
    return found


def made(at: Break, results: int, known: Iterable[Path], loops: Loops, world: World) -> set[Path]:
    """What calls give that have another number each time: this break may be one, and values be of earlier ones."""
    inner, places = at.frames[-1], _places(at, results, world)
    found = {place for path in known for place in _rebased(path, places)}
    return found | {paths.arg(0)} if results == 1 and (inner.code, inner.unit) in loops.numbers else found


def light(at: Break, results: int, known: Iterable[Path], world: World) -> set[Path]:
    """Containers among the values carried over a break, and in them, whose contents were seen to change."""
    places = _places(at, results, world)
    return {place for path in known for place in _rebased(path, places)}


def _results(operands: Iterable[Any]) -> Iterator[Lesson]:
    """What is made of tensors may be a float, which varies then; of numbers that vary, any number."""
    for operand in operands:
        parts = operand if type(operand) in (list, tuple) else (operand,)
        if any(type(part) in SYMBOLIC for part in parts):
            yield paths.arg(0), "float", 0
        if any(type(part) is TracedInt or type(part) is TracedFloat for part in parts):
            yield paths.arg(0), "int", 0


def written(places: Places, world: World) -> Iterator[Lesson]:
    """The same for what the program has put into attributes, items and cells that were there before."""
    for path, _, now in changes(world):
        if type(now) in SYMBOLIC:
            for place in _rebased(path, places):
                yield from _lessons(now, place)


def replaced_sizes(world: World) -> Iterator[Lesson]:
    """Constant sizes of tensors that the program has put others in the place of, whose sizes are symbols."""
    for path, before, now in changes(world):
        if type(now) is TracedTensor and type(before) in TENSORS:
            old, new = (each._meta.size if type(each) is TracedTensor else each.shape for each in (before, now))
            if len(old) == len(new):
                yield from ((path, "size", dim) for dim, size in enumerate(new) if type(size) is TracedInt)


def written_sizes(world: World) -> Iterator[Lesson]:
    """Sizes that vary of tensors that the program has put in the place of what it has not looked at."""
    for path, before, now in changes(world):
        if type(now) is TracedTensor and before is UNBOUND:
            yield from ((path, "size", dim) for dim, size in enumerate(now._meta.size) if _varies(size))


def counted(at: Break, results: int, before: Sequence[Any], world: World) -> Iterator[Lesson]:
    """Constants of a capture that ends where it began, one round of a loop later: what is another number by then."""
    for number, now in enumerate(at.values):
        yield from differences(before[number + results], now, paths.arg(number + results))
    for path, old, now in changes(world):
        yield from differences(old, now, path)


def differences(old: Any, now: Any, path: Path) -> Iterator[Lesson]:
    """A number that is another one by now, and sizes that are."""
    kind = NUMBER_TYPES.get(type(now))
    if kind is not None and type(old) is kind and (type(now) is not kind or old != now):
        yield path, KINDS[kind], 0
    elif type(now) is TracedTensor and type(old) in TENSORS:
        before, sizes = old._meta.size if type(old) is TracedTensor else old.shape, now._meta.size
        if len(before) == len(sizes):
            pairs = enumerate(zip(before, sizes, strict=True))
            yield from (
                (path, "size", dim) for dim, pair in pairs if set(map(type, pair)) == {int} and len({*pair}) > 1
            )


def _carried(at: Break, world: World) -> Iterator[tuple[int, Path]]:
    """Numbers of the outside values carried over a break, and where this capture has them from."""
    for number, value in enumerate(at.values):
        if type(value) is Lazy:
            yield number, value.path
        elif (record := world.records.get(id(value))) is not None:
            yield number, record.path
        elif (cell := world.cells.get(id(value))) is not None:
            yield number, cell[1]


def _items(at: Break) -> Iterator[int]:
    """Numbers of the values that are ints and items of loops that the program is in: others in the next round."""
    for frame in at.frames:
        variables = set(loop_variables(frame.info, frame.unit))
        for slot, number in zip(frame.slots, frame.slot_values, strict=True):
            if slot in variables and type(at.values[number]) is int:
                yield number


def _places(at: Break, results: int, world: World) -> Places:
    """Where values are behind a break, by where this capture has them from; one may be in several."""
    found: Places = {}
    for number, path in _carried(at, world):
        found.setdefault(path, []).append(paths.arg(number + results))
    return found


def _rebased(path: Path, places: Places) -> Iterator[Path]:
    """The ways to the same place from what is carried over a break."""
    steps: list[Path] = []
    at: Path | None = path
    while at is not None:
        for found in places.get(at, ()):
            for step in reversed(steps):
                found = found.child(step.accessor, step.key)
            yield found
        steps.append(at)
        at = at.parent
    if steps[-1].accessor is paths.CONST and steps[-1] not in places:
        yield path


def _lessons(value: Any, path: Path) -> Iterator[Lesson]:
    kind = type(value)
    if kind is TracedTensor:
        for dim, size in enumerate(value._meta.size):
            if _varies(size):
                yield path, "size", dim
                if size.symbols.is_unbacked(size) or not surely(operator.ne, size, 1):
                    yield path, "count", dim
        yield from ((path, "stride", dim) for dim in _free_strides(value._meta))
    elif kind is TracedInt and _varies(value):
        yield path, "int", 0
    elif kind is TracedFloat:
        yield path, "float", 0
    elif kind is TracedText:
        yield path, "str", 0
        yield path.part("length", len), "int", 0
    elif kind is tuple or kind is list:
        for i, item in enumerate(value):
            if type(item) in SYMBOLIC:
                yield from _lessons(item, path.item(i))


def _free_strides(meta: Any) -> Iterator[int]:
    """Dimensions whose stride varies, and is not the extent of another one."""
    extents = [size * stride for size, stride in zip(meta.size, meta.stride, strict=True)]
    for dim, stride in enumerate(meta.stride):
        if _varies(stride) and not any(surely(operator.eq, stride, extent) for extent in extents):
            yield dim


def _parts(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
    """What lies in a cell, a dict, a generator or an instance that the program made."""
    kind = type(value)
    if kind is CellType:
        yield cell_get(value), path.cell()
    elif kind in SUSPENDED:
        yield from values_of(value, path)
    elif kind is dict:
        yield from ((item, path.entry(key)) for key, item in value.items() if type(key) is str)
    elif is_heap_type(kind) and not issubclass(kind, (type, ModuleType)):
        fields = instance_dict(value) or {}
        yield from ((item, path.attr(name)) for name, item in fields.items() if type(name) is str)


def _varies(number: Any) -> bool:
    return type(number) is TracedInt and type(number.symbols.unknowns.settled(number.number)) is not int
