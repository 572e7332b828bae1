"""Other groupings of the same elements: strides of a view with other sizes, or of a copy where there is none.

Whether it is one may depend on sizes being one. Then the strides hold for both (`shapes/indicators.py`).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from stator.shapes.arithmetic import number_of
from stator.shapes.scalar import TracedInt
from stator.tensors.rules.layout import is_several, overlooking, row_major, surely

Number = Any  # int or TracedInt
MOST_ONES = 5  # unknowns of which it is found out what they being one would mean
MOST_TOLD = 3  # of these, unknowns that strides are made of


class Shape(NamedTuple):
    """Where the elements of a tensor are."""

    size: tuple[Number, ...]
    stride: tuple[Number, ...]
    offset: Number = 0


class Copied(NamedTuple):
    """No view: a contiguous copy of this size; `near`: unless one of these unknowns is one; `stride`: for both."""

    size: tuple[Number, ...]
    near: frozenset[int] = frozenset()
    stride: tuple[Number, ...] | None = None


def regrouped(base: Shape, sizes: tuple[Number, ...]) -> tuple[Number, ...] | None:
    """Strides with which the same memory has other sizes; None if it has not."""
    try:
        return aligned(base, sizes) or aligned(base, sizes, is_several) or _by_runs(base, sizes)
    except Apart:
        return None


class Apart(Exception):
    """One of the new dimensions goes over two old ones that do not follow each other in memory, whatever the sizes."""


def aligned(
    base: Shape,
    sizes: tuple[Number, ...],
    several: Callable[[Number], bool] = lambda size: surely(operator.ne, size, 1),
) -> tuple[Number, ...] | None:
    """These strides where nothing needs to be asked for them; also a size that may be one is taken as it is, where its
    stride is the same if it is, or is that of `several`. Old and new dimensions are matched in groups of as many
    elements, from the last."""
    strides: list[Number] = []
    left = list(sizes)
    dims = [dim for dim in zip(base.size, base.stride, strict=True) if not is_one(dim[0])]
    end: Number | None = None  # the stride with which the next dimension would go on
    while dims:
        count, step = dims.pop()
        if end is not None and not surely(operator.eq, step, end) and not several(count):
            return None
        covered: Number = 1
        while not surely(operator.eq, covered, count):
            if is_one(covered) or surely(operator.le, covered, count):
                if not left:
                    return None
                strides.append(step * covered)
                covered = covered * left.pop()
            elif dims and surely(operator.ge, covered, count) and surely(operator.eq, dims[-1][1], count * step):
                count = count * dims.pop()[0]
            elif dims and surely(operator.gt, covered, count) and _are_apart(count * step, *dims[-1]):
                raise Apart
            else:
                return None
        end = count * step
        while left and is_one(left[-1]):
            strides.append(end)
            left.pop()
        goes_on = dims and surely(operator.eq, dims[-1][1], end)
        if left and not goes_on and not several(left[-1]):
            return None
    return None if left or not strides else tuple(reversed(strides))


def _are_apart(end: Number, count: Number, step: Number) -> bool:
    """Whether a dimension of several elements does not begin where the one behind it ends."""
    return surely(operator.gt, count, 1) and surely(operator.ne, step, end)


def is_one(size: Number) -> bool:
    """Whether a size is one in any case."""
    return type(size) is int and size == 1


def _by_runs(base: Shape, sizes: tuple[Number, ...]) -> tuple[Number, ...] | None:
    """Works on runs of dimensions that lie in memory like one, from the last."""
    strides: list[Number] = []
    left = list(sizes)
    for count, step in _runs(base):
        covered: Number = 1
        while left and (covered != count or left[-1] == 1):
            strides.append(step * covered)
            covered = covered * left.pop()
            if type(covered) is int and type(count) is int and covered > count:
                return None
        if covered != count:
            return None
    return None if left else tuple(reversed(strides))


def _runs(base: Shape) -> list[tuple[Number, Number]]:
    """Number of elements and stride of each run, from the last."""
    runs: list[tuple[Number, Number]] = []
    for size, stride in zip(reversed(base.size), reversed(base.stride), strict=True):
        if runs and (size == 1 or stride == runs[-1][0] * runs[-1][1]):
            runs[-1] = runs[-1][0] * size, runs[-1][1]
        else:
            runs.append((size, stride))
    return runs


def either_stride(base: Shape, size: tuple[Number, ...], ones: Collection[int]) -> tuple[Number, ...] | None:
    """Strides of a copy, or of a view if some of these unknowns are one; None if they are not known."""
    if len(ones) > MOST_ONES:
        return None
    found = alone(base, size, ones)
    made = _either_stride(base, size, found, True) if len(found) <= MOST_TOLD else None
    return made if made is not None and lies_alike(base, size, made, ones) else None


def alone(base: Shape, size: tuple[Number, ...], ones: Iterable[int]) -> list[int]:
    """The unknowns that make another layout than that of a copy if they alone are one."""
    return [one for one in ones if not _lies_alike(base, size, None, {one})]


def telling(base: Shape, size: tuple[Number, ...], ones: Collection[int]) -> tuple[list[int], frozenset[int]]:
    """Unknowns that have to be more than one, for the layout to be that of a copy whichever of the others are one. The
    last ones are told first: a batch is rather one than an image is one wide."""
    if len(ones) > MOST_ONES:
        return [], frozenset()
    told = alone(base, size, ones)
    others = sorted(set(ones).difference(told))
    while others and not lies_alike(base, size, None, others):
        told.append(others.pop())
    return told, frozenset(others)


def _either_stride(base: Shape, size: tuple[Number, ...], ones: list[int], copied: bool) -> tuple[Number, ...] | None:
    """These strides; `copied`: it is a copy if all of these unknowns are more than one."""
    if not ones:
        return row_major(size) if copied else certain(base, size)
    symbols = next(number.symbols for number in base.size if type(number) is TracedInt)
    told = symbols.unknowns.indicators.of(ones[0])
    if told is None:
        return None
    ((indicator,),) = told.terms
    several = _either_stride(base, size, ones[1:], copied)
    inside = Shape(if_one(symbols, indicator, base.size), if_one(symbols, indicator, base.stride))
    one = _either_stride(inside, if_one(symbols, indicator, size), ones[1:], False)
    if several is None or one is None:
        return None
    either = symbols.unknowns.indicators.either
    pairs = zip(map(number_of, several), map(number_of, one), strict=True)
    return tuple(symbols.traced(either(*pair, indicator)) for pair in pairs)


def certain(base: Shape, size: tuple[Number, ...]) -> tuple[Number, ...] | None:
    """Strides of a view or copy, if it is certain which; sizes that are more than one in this call are taken to be."""
    with overlooking(base.size):
        try:
            return aligned(base, size) or aligned(base, size, is_several)
        except Apart:
            return row_major(size)


def if_one(symbols: Any, indicator: int, numbers: Iterable[Number]) -> tuple[Number, ...]:
    """What numbers are if what an indicator is about is one."""
    known = symbols.unknowns.indicators.if_one
    return tuple(symbols.traced(known(number_of(number), indicator)) for number in numbers)


def lies_alike(base: Shape, size: Sequence[Number], stride: Sequence[Number] | None, ones: Collection[int]) -> bool:
    """Whether what a reshape gives has these strides, or those of a copy, also if some of these unknowns are one."""
    if len(ones) > MOST_ONES:
        return False
    chosen = (itertools.compress(ones, some) for some in itertools.product((False, True), repeat=len(ones)))
    return all(_lies_alike(base, size, stride, set(some)) for some in chosen) if ones else True


def _lies_alike(base: Shape, size: Sequence[Number], stride: Sequence[Number] | None, ones: Iterable[int]) -> bool:
    unknowns = next(number.symbols.unknowns for number in base.size if type(number) is TracedInt)
    parts: list[Any] = [[unknowns.if_one(number_of(n), ones) for n in part] for part in (*base[:2], size, stride or ())]
    sizes, strides, wanted, expected = parts
    if any(None in part for part in parts) or math.prod(sizes) != math.prod(wanted) or 0 in sizes:
        return False
    with torch._C.DisableTorchFunction():
        made = torch.empty_strided(sizes, strides, device="meta").reshape(wanted).stride()
    expected = row_major(wanted) if stride is None else expected
    return all(n == 1 or step == other for n, step, other in zip(wanted, made, expected, strict=True))
