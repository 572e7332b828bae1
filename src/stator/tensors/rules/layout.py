"""Strides: of contiguous memory, of copies, and of what an elementwise operation makes from several operands."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stator.shapes.arithmetic import number_of
from stator.shapes.scalar import TracedInt
from stator.tensors.meta import Meta

Sizes = tuple[int, ...]


def surely(function: Any, a: Any, b: Any) -> bool:
    """Whether a comparison of sizes holds in any case, or is guarded to already; nothing is asked."""
    if type(a) is TracedInt or type(b) is TracedInt:
        return bool((a if type(a) is TracedInt else b).symbols.settled(function, a, b))
    return bool(function(a, b))


@contextmanager
def overlooking(sizes: Iterable[Any]) -> Iterator[set[int]]:
    """A context in which sizes are not one, for what is a copy then; it gives the unknowns that mattered."""
    symbols = next((size.symbols for size in sizes if type(size) is TracedInt), None)
    if symbols is None or symbols.asks:
        yield set()
    else:
        with symbols.ones.overlooked() as ones:
            yield ones


def is_one(length: Any) -> bool:
    """Whether a size is one, where only strides depend on it: one that was calculated and may be is taken not to be, as
    long as it is not in this call. The strides of a dimension of one are arbitrary, those of others are the same."""
    return not _may_be_one(length) and length == 1


def is_several(length: Any) -> bool:
    """Whether a size is not one in any case, or is taken not to be, see `is_one`."""
    return surely(operator.ne, length, 1) or _may_be_one(length)


def has_one(sizes: Sequence[Any]) -> bool:
    """Whether one of these sizes is."""
    return any(map(is_one, sizes))


def _may_be_one(length: Any) -> bool:
    """Whether nothing is known or guarded about a size being one that is another one in this call."""
    if type(length) is not TracedInt or length.symbols.settled(operator.eq, length, 1) is not None:
        return False
    value = length.symbols.unknowns.hint(length.number)
    if value == 1:
        length.symbols.ones.meet(length.number)
    return value is not None and value > 1


def is_smaller(a: Any, b: Any) -> bool:
    """Whether a stride is smaller than another one; those that are the same only if a size is one are not."""
    if type(a) is not TracedInt and type(b) is not TracedInt:
        return bool(a < b)
    if surely(operator.le, a, b):
        return _times(a, b) or bool(a < b)
    return not (surely(operator.ge, a, b) and _times(b, a)) and bool(a < b)


def is_same(a: Any, b: Any) -> bool:
    """Whether two strides are equal; those that are only if a size is one are not."""
    if type(a) is not TracedInt and type(b) is not TracedInt:
        return bool(a == b)
    return not (_times(a, b) or _times(b, a)) and bool(a == b)


def _times(a: Any, b: Any) -> bool:
    """Whether a stride is another one times a size that may be one."""
    if type(a) is not TracedInt and (type(b) is not TracedInt or a == 0):
        return False
    symbols = (a if type(a) is TracedInt else b).symbols
    count = symbols.unknowns.exact(number_of(b), number_of(a))
    return count is not None and _may_be_one(symbols.traced(count))


def extent(length: Any) -> Any:
    """What a size multiplies strides by: an empty dimension counts as one."""
    if type(length) is int or not length.symbols.is_unbacked(length):
        return max(length, 1)
    return length.symbols.traced(length.symbols.extent(length.number))


def row_major(size: Sequence[int]) -> Sizes:
    """Strides of a freshly made contiguous tensor."""
    strides = [1] * len(size)
    for i in range(len(size) - 1, 0, -1):
        strides[i - 1] = strides[i] * extent(size[i])
    return tuple(strides)


def is_row_major(meta: Meta) -> bool:
    """Whether the strides are those of a fresh tensor, also where a size of one would allow any; no if they are only
    if a size is one, see `is_one`."""
    return all(map(is_same, meta.stride, row_major(meta.size)))


def is_known_row_major(meta: Meta) -> bool:
    """The same where nothing has to be asked, else False."""
    return all(surely(operator.eq, *pair) for pair in zip(meta.stride, row_major(meta.size), strict=True))


def is_surely_row_major(meta: Meta) -> bool:
    """Whether the strides are those of a fresh tensor in any case; nothing is asked of sizes that may be one."""
    step: Any = 1
    for length, stride in zip(reversed(meta.size), reversed(meta.stride), strict=True):
        if not surely(operator.eq, stride, step) or not surely(operator.ge, length, 1):
            return False
        step = step * length
    return True


def is_surely_channels_last(meta: Meta) -> bool:
    """Whether the strides are those of a fresh tensor with several channels next to each other, in any case."""
    if len(meta.size) not in (4, 5) or not surely(operator.gt, meta.size[1], 1):
        return False
    alike = (surely(operator.eq, *pair) for pair in zip(meta.stride, channels_last(meta.size), strict=True))
    return all(surely(operator.ge, length, 1) for length in meta.size) and all(alike)


def is_definite(meta: Meta) -> bool:
    """Whether no stride is arbitrary because its size is one: FakeTensor and eager disagree about some of those."""
    if is_surely_row_major(meta) or not has_one(meta.size) or is_row_major(meta):
        return True
    batch_of_one = not has_one(meta.size[1:]) and meta.stride[0] == math.prod(meta.size)
    return batch_of_one and is_dense(meta) and not is_contiguous(meta)


def are_exact(operands: Sequence[Meta]) -> bool:
    """Whether it is certain which sizes are one, so that the strides of all are those that eager makes."""
    lengths = [length for meta in operands for length in meta.size]
    return all(type(length) is int or is_several(length) or surely(operator.eq, length, 1) for length in lengths)


def is_contiguous(meta: Meta) -> bool:
    """What `Tensor.is_contiguous()` answers; sizes are not zero."""
    if is_row_major(meta):
        return True
    step = 1
    for length, stride in zip(reversed(meta.size), reversed(meta.stride), strict=True):
        if length != 1:
            if stride != step:
                return False
            step *= length
    return True


def is_dense(meta: Meta) -> bool:
    """Whether the elements fill a stretch of memory without gaps and overlaps, in any order of dimensions."""
    step: Any = 1
    rest = [(s, n) for n, s in zip(meta.size, meta.stride, strict=True) if not is_one(n)]
    while rest:  # as far as it is certain which dimension is the next
        following = next((i for i, (stride, _) in enumerate(rest) if surely(operator.eq, stride, step)), None)
        if following is None:
            break
        step = step * rest.pop(following)[1]
    if all(surely(operator.ne, stride, step) for stride, _ in rest):
        return not rest
    for stride, length in sorted(rest):
        if stride != step:
            return False
        step *= length
    return True


def is_filled(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """The same for numbers."""
    step = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def suggests_channels_last(meta: Meta) -> bool:
    """Whether operations on images take the channels to lie next to each other, and lay out their results so; sizes
    are not zero."""
    rank = len(meta.size)
    if rank not in (4, 5) or is_row_major(meta) or meta.stride[1] == 0:
        return False
    least: Any = 0
    for dim in (1, *range(rank - 1, 1, -1), 0):
        if meta.stride[dim] < least or (dim == 0 and least == meta.stride[1]):
            return False
        least = meta.stride[dim] * meta.size[dim]
    return True


def channels_last(size: Sequence[int]) -> Sizes:
    """Strides of a freshly made tensor whose channels lie next to each other."""
    moved = row_major((size[0], *size[2:], size[1]))
    return (moved[0], moved[-1], *moved[1:-1])


def is_channels_last(meta: Meta) -> bool:
    """What `Tensor.is_contiguous` answers for images whose channels lie next to each other; sizes are not zero."""
    if len(meta.size) != 4:
        return False
    expected = zip(meta.size, meta.stride, channels_last(meta.size), strict=True)
    return all(length == 1 or stride == wanted for length, stride, wanted in expected)


def broadcast(sizes: Sequence[Sequence[int]]) -> Sizes | None:
    """The common size of operands; None when they do not fit."""
    rank = max(map(len, sizes), default=0)
    shape = [1] * rank
    for size in sizes:
        for i, length in enumerate(size, rank - len(size)):
            if type(length) is TracedInt and (type(shape[i]) is int and shape[i] == 1):
                shape[i] = length  # also if it is one
            elif length is not shape[i] and not is_one(length):
                if not is_one(shape[i]) and shape[i] != length:
                    return None
                shape[i] = length
    return tuple(shape)


def is_in_order(shape: Sizes, meta: Meta) -> bool:
    """Whether an operand over the common size lies in the order of its dimensions in any case, with or without gaps;
    those in which it is repeated do not count."""
    after: Any = 0
    least: Any = 0
    for own, stride, length in zip(reversed(meta.size), reversed(meta.stride), reversed(shape), strict=False):
        if type(own) is int and own == 1 and is_several(length):
            continue
        if not (surely(operator.gt, stride, after) or _times(after, stride)) or not surely(operator.ge, stride, least):
            return False
        after, least = stride, own * stride
    return True


def are_in_order(shape: Sizes, operands: Sequence[Meta]) -> bool:
    """Whether all do, over a size in which nothing is one."""
    return all(is_several(length) for length in shape) and all(is_in_order(shape, one) for one in operands)


def is_apart(meta: Meta) -> bool:
    """Whether no two elements share memory, which nothing may be written to."""
    return is_in_order(tuple(meta.size), meta) or is_dense(meta)


def elementwise(shape: Sizes, operands: Sequence[Meta], scalars: bool = False) -> Sizes:
    """Strides of the result of an elementwise operation; `scalars`: numbers are among the operands.

    Whether a size is one matters only to its own stride.
    """
    with overlooking(itertools.chain(shape, *(meta.size for meta in operands))):
        return _elementwise(shape, operands, scalars)


def _elementwise(shape: Sizes, operands: Sequence[Meta], scalars: bool) -> Sizes:
    if all(is_in_order(shape, meta) for meta in operands):
        return row_major(shape)
    if all(is_row_major(meta) for meta in operands):
        return row_major(shape)
    first = operands[0]
    if not scalars and all(_is_whole(shape, meta) for meta in operands):
        if all(map(is_contiguous, operands)):
            return row_major(shape)
        if has_one(shape) and all(map(is_channels_last, operands)):
            return channels_last(shape)
        if is_dense(first) and all(meta.stride == first.stride for meta in operands):
            return first.stride
    return _filled(shape, _order(shape, [_spread(shape, meta) for meta in operands]))


def _is_whole(shape: Sizes, meta: Meta) -> bool:
    """Whether an operand that fits is repeated nowhere; sizes other than one have been found to agree."""
    return len(meta.size) == len(shape) and all(is_one(n) == is_one(m) for n, m in zip(meta.size, shape, strict=True))


def _spread(shape: Sizes, meta: Meta) -> Sizes:
    """Strides of an operand over the common size: zero where it is repeated."""
    pad = len(shape) - len(meta.size)
    dims = enumerate(zip(meta.size, meta.stride, strict=True), pad)
    own = (0 if is_one(n) and not is_one(shape[i]) else s for i, (n, s) in dims)
    return (*([0] * pad), *own)


def _order(shape: Sizes, strides: list[Sizes]) -> list[int]:
    """Dimensions from the fastest to the slowest: an insertion sort in which some pairs cannot be compared."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        right = i
        for left in range(i - 1, -1, -1):
            verdict = _compare(shape, strides, order[left], order[right])
            if verdict > 0:
                order[left], order[right] = order[right], order[left]
                right = left
            elif verdict < 0:
                break
    return order


def _compare(shape: Sizes, strides: list[Sizes], a: int, b: int) -> int:
    """The first operand that repeats neither dimension decides; of equal strides the shorter dimension is faster."""
    for row in strides:
        if row[a] == 0 or row[b] == 0:
            continue
        if is_smaller(row[a], row[b]):
            return -1
        if is_smaller(row[b], row[a]):
            return 1
        if shape[a] > shape[b]:
            return 1
    return 0


def _filled(shape: Sizes, order: list[int]) -> Sizes:
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def _is_kept(length: Any, stride: Any, wanted: Any) -> bool:
    """Whether a dimension has this stride in a copy, with gaps in memory or without: one of one element keeps its own
    where there are none."""
    return is_several(length) or surely(operator.eq, stride, wanted)


def copied(meta: Meta) -> Sizes:
    """Strides of a copy that keeps the layout where it can."""
    if is_in_order(tuple(meta.size), meta):
        strides = row_major(meta.size)
        if all(map(_is_kept, meta.size, meta.stride, strides)):
            return strides
    if is_dense(meta):
        return meta.stride
    return elementwise(tuple(meta.size), [meta], scalars=True)
