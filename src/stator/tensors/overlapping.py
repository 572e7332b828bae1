"""Operations that write to memory which they also read, or twice: eager refuses, or the order of its elements counts.

What traces such an operation calculates with the memory as it was before, and never refuses. Where it depends on data
where tensors lie, they are taken to lie apart: eager would refuse most of what does not.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import combinations
from types import EllipsisType
from typing import Any

import torch

from stator.shapes.arithmetic import number_of
from stator.shapes.scalar import TracedInt
from stator.shapes.scalar import from_data as is_from_data
from stator.tensors.meta import Meta
from stator.tensors.plan import Plan
from stator.tensors.rules.gathering import basic
from stator.tensors.rules.table import View, hint
from stator.tensors.traced import TracedTensor

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]  # sizes, strides and offset, as they are in this call

MOST = 2000  # places that are looked at before two views count as overlapping
_INDICES = (int, slice, EllipsisType, type(None))


def clashes(func: Any, args: Sequence[Any], plan: Plan, tensors: Sequence[TracedTensor]) -> bool:
    """Whether a call writes to what it reads elsewhere, or to one place twice."""
    if _lists_twice(args):
        return True
    for index in plan.mutated:
        written = tensors[index]
        if written._meta.device.type == "meta" or _is_from_data(written._meta):
            continue
        place = _region(func, args, written._meta)
        if place is None:
            continue
        if not _is_distinct(place):
            return True
        whole = _is_whole(func, args)
        for other in tensors:
            if other is written or other._storage is not written._storage:
                continue
            if other._meta.dtype is not written._meta.dtype or _is_from_data(other._meta):
                continue
            if other._meta.key[:3] == written._meta.key[:3] if whole else _is_part(other._meta, args[1], written._meta):
                continue  # the very same elements
            if _touch(place, _geometry(other._meta)):
                return True
            _settle(written._meta, other._meta)
            _settle_bounds(func, args)
    return False


def _lists_twice(args: Sequence[Any]) -> bool:
    """Whether tensors of the list that is written to (`torch._foreach_add_([x, x], 1)`) have an element in common."""
    listed = args[0] if args and type(args[0]) in (list, tuple) else ()
    memories: dict[int, list[Meta]] = {}
    for one in listed:
        if type(one) is TracedTensor and not _is_from_data(one._meta):
            memories.setdefault(id(one._storage), []).append(one._meta)
    for one, other in (pair for metas in memories.values() for pair in combinations(metas, 2)):
        if one is other or _meet(_geometry(one), _geometry(other)):
            return True
        _settle(one, other)
    return False


def is_refused(func: Any, args: Sequence[Any], plan: Plan, tensors: Sequence[TracedTensor]) -> bool:
    """Whether eager sees that a call writes to one place twice, or to part of a stretch of memory that it reads."""
    for index in plan.mutated:
        written = tensors[index]
        place = None if _is_from_data(written._meta) else _region(func, args, written._meta)
        if place is None or 0 in place[0]:
            continue
        if any(stride == 0 and size > 1 for size, stride in zip(*place[:2], strict=True)):
            return True
        for other in tensors:
            if other is written or other._storage is not written._storage or _is_from_data(other._meta):
                continue
            read = _geometry(other._meta)
            if read[0] == place[0] and read != place and _is_dense(place) and _is_dense(read) and _meet(place, read):
                return True
    return False


def _is_from_data(meta: Meta) -> bool:
    """Whether it depends on data where a tensor lies."""
    numbers = (*meta.size, *meta.stride, meta.offset)
    return any(type(number) is TracedInt and number.symbols.is_unbacked(number) for number in numbers)


def _touch(place: Geometry, read: Geometry) -> bool:
    """Whether what is written and what is read have an element in common that counts."""
    return read != place and not _in_order(place, read) and _meet(place, read)


def _settle(one: Meta, other: Meta) -> None:
    """Views that lie apart do so for these numbers only: they become constants, but for a size that does not matter."""
    if TracedInt not in map(type, (*one.size, *one.stride, one.offset, *other.size, *other.stride, other.offset)):
        return
    steps = [tuple(map(operator.index, meta.stride)) for meta in (one, other)]
    apart = abs(operator.index(one.offset) - operator.index(other.offset))
    free = _shared(one, other, steps, apart)
    for size in (*one.size, *other.size):
        if number_of(size) != free:
            operator.index(size)


def _settle_bounds(func: Any, args: Sequence[Any]) -> None:
    """The same for where the slices begin and end that are written to."""
    if not _is_whole(func, args):
        for bound in _bounds(args[1] if type(args[1]) is tuple else (args[1],)):
            bound.decay()


def _bounds(index: Sequence[Any]) -> Iterator[TracedInt]:
    """Where slices begin and end that do so at a number that varies."""
    for part in index:
        for bound in (part.start, part.stop, part.step) if type(part) is slice else ():
            if type(bound) is TracedInt:
                yield bound


def _shared(one: Meta, other: Meta, steps: list[tuple[int, ...]], apart: int) -> Any:
    """The symbolic size that two views have in one dimension, with steps longer than all that they differ in."""
    if steps[0] != steps[1]:
        return None
    symbolic = [i for i, size in enumerate(one.size) if type(size) is TracedInt]
    if len(symbolic) != 1 or number_of(one.size[symbolic[0]]) != number_of(other.size[symbolic[0]]):
        return None
    (at,) = symbolic
    reach = [sum((int(n) - 1) * s for i, (n, s) in enumerate(zip(m.size, steps[0], strict=True)) if i != at)
             for m in (one, other)]  # fmt: skip
    return number_of(one.size[at]) if steps[0][at] > apart + max(reach) else None


def _geometry(meta: Meta) -> Geometry:
    sizes, strides, offset = meta.wrap[:3]
    return tuple(sizes), tuple(strides), offset


def _is_part(meta: Meta, index: Any, whole: Meta) -> bool:
    """Whether a tensor is what this index takes of another one, for whatever numbers."""
    try:
        part = basic(whole, index)
    except Exception:  # what there is no rule for
        return False
    if type(part) is not View:
        return False
    made = (*part.size, *part.stride, whole.offset + part.offset)
    return list(map(number_of, made)) == list(map(number_of, (*meta.size, *meta.stride, meta.offset)))


def _is_whole(func: Any, args: Sequence[Any]) -> bool:
    return func is not operator.setitem or args[1] is ...


def _region(func: Any, args: Sequence[Any], meta: Meta) -> Geometry | None:
    """What is written to; None if it is not known."""
    place = _geometry(meta)
    if _is_whole(func, args):
        return place
    index = args[1] if type(args[1]) is tuple else (args[1],)
    if not all(type(one) in _INDICES for one in index) or any(map(is_from_data, _bounds(index))):
        return None
    with torch._C.DisableTorchFunction():  # nothing of this is part of the program
        part = torch.empty(0, device="meta").as_strided(*place)[hint(index)]
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
