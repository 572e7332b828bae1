"""Operations that write to memory which they also read, or twice: eager refuses, or the order of its elements counts.

What traces such an operation calculates with the memory as it was before, and never refuses.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import number_of
from stator.tensors.meta import Meta
from stator.tensors.plan import Plan
from stator.tensors.traced import TracedTensor

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]  # sizes, strides and offset, as they are in this call

MOST = 2000  # places that are looked at before two views count as overlapping
_INDICES = (int, slice, EllipsisType, type(None))


def clashes(func: Any, args: Sequence[Any], plan: Plan, tensors: Sequence[TracedTensor]) -> bool:
    """Whether a call writes to what it reads elsewhere, or to one place twice."""
    for index in plan.mutated:
        written = tensors[index]
        if written._meta.device.type == "meta":
            continue
        place = _region(func, args, written._meta)
        if place is None:
            continue
        if not _is_distinct(place):
            return True
        for other in tensors:
            if other._storage is written._storage and other._meta.dtype is written._meta.dtype and other is not written:
                read = _geometry(other._meta)
                if read != place and not _in_order(place, read) and _meet(place, read):
                    return True
                _settle(written._meta, other._meta)
    return False


def _settle(one: Meta, other: Meta) -> None:
    """Views that lie apart do so for these numbers only: they become constants, but for those that do not matter."""
    numbers = [*one.size, *one.stride, one.offset, *other.size, *other.stride, other.offset]
    if TracedInt not in map(type, numbers):
        return
    free = _common(one, other)
    for number in numbers:
        if type(number) is TracedInt and number_of(number) not in free:
            operator.index(number)


def _common(one: Meta, other: Meta) -> set[Any]:
    """Sizes of dimensions that two views share, whose steps are longer than all that they differ in."""
    strides = [*one.stride, *other.stride, one.offset, other.offset]
    if len(one.size) != len(other.size) or set(map(type, strides)) != {int}:
        return set()
    rows = list(zip(map(number_of, one.size), map(number_of, other.size), one.stride, other.stride, strict=True))
    shared = {i for i, (a, b, s, t) in enumerate(rows) if a == b and s == t and type(a) is not int}
    rest = [row for i, row in enumerate(rows) if i not in shared]
    if any(type(row[0]) is not int or type(row[1]) is not int for row in rest):
        return set()
    reach = abs(one.offset - other.offset)
    reach += max(sum((a - 1) * s for a, _, s, _ in rest), sum((b - 1) * t for _, b, _, t in rest))
    return {rows[i][0] for i in shared if rows[i][2] > reach and len(shared) == 1}


def _geometry(meta: Meta) -> Geometry:
    sizes, strides, offset = meta.wrap[:3]
    return tuple(sizes), tuple(strides), offset


def _region(func: Any, args: Sequence[Any], meta: Meta) -> Geometry | None:
    """What is written to; None if it is not known."""
    place = _geometry(meta)
    if func is not operator.setitem:
        return place
    index = args[1] if type(args[1]) is tuple else (args[1],)
    if not all(type(one) in _INDICES for one in index):
        return None
    whole = torch.empty(0, device="meta").as_strided(*place)
    part = whole[index]
    return tuple(part.shape), part.stride(), part.storage_offset()


def _is_distinct(place: Geometry) -> bool:
    """Whether the elements lie in different places, as far as strides in order tell."""
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(*place[:2], strict=True) if size > 1):
        if stride <= reach and 0 not in place[0]:
            return False
        reach += stride * (size - 1)
    return True


def _in_order(written: Geometry, read: Geometry) -> bool:
    """Whether eager takes each element before it is overwritten: it goes through memory, and refuses stretches."""
    return written[1] == read[1] and written[2] < read[2] and not (_is_dense(written) and _is_dense(read))


def _is_dense(place: Geometry) -> bool:
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(*place[:2], strict=True) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def _meet(one: Geometry, other: Geometry) -> bool:
    """Whether two views have an element in common, or may have one where looking takes too long."""
    if 0 in one[0] or 0 in other[0]:
        return False
    target = other[2] - one[2]
    most: dict[int, int] = {}  # how often each stride can be taken, with those of the other one taken backwards
    for sizes, strides, backwards in ((*one[:2], False), (*other[:2], True)):
        for size, stride in zip(sizes, strides, strict=True):
            if stride and size > 1:
                most[stride] = most.get(stride, 0) + size - 1
                target += stride * (size - 1) if backwards else 0
    steps = sorted(most.items(), reverse=True)
    pending, looked = [(0, target)], 0
    while pending:
        level, rest = pending.pop()
        looked += 1
        if rest == 0 or looked > MOST:
            return True
        if level == len(steps):
            continue
        stride, count = steps[level]
        beyond = sum(s * n for s, n in steps[level + 1 :])
        first = max(0, -((beyond - rest) // stride))
        pending += [(level + 1, rest - stride * n) for n in range(first, min(count, rest // stride) + 1)[: MOST + 1]]
    return False
