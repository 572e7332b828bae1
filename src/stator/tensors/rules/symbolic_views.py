"""Views with symbolic numbers: the same arithmetic that torch does for numbers, on polynomials.

Each function takes size, stride and offset of the base and the arguments of the operation, and gives those of the
view (a list of them for several). A comparison that depends on the call becomes a guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from stator.guards.relation import INT
from stator.shapes.arithmetic import number_of
from stator.shapes.scalar import TracedInt
from stator.tensors.rules.layout import is_several, overlooking, surely
from stator.tensors.rules.meeting import meet
from stator.tensors.rules.regrouping import Copied, Shape, either_stride, is_one, lies_alike, regrouped, telling
from stator.tensors.rules.table import Decline, need

Number = Any  # int or TracedInt
INTS = (int, TracedInt)


def is_from_data(size: Number) -> bool:
    """Whether this call does not tell a size."""
    return type(size) is TracedInt and size.symbols.is_unbacked(size)


def hold(function: Any, a: Number, b: Number) -> None:
    """Declines unless a comparison holds; where only data tells, the operation fails unless it does: it is assumed."""
    if is_from_data(a) or is_from_data(b):
        (a if type(a) is TracedInt else b).symbols.suppose(function, a, b)
        verdict = (a if type(a) is TracedInt else b).symbols.unknowns.known(function, *map(number_of, (a, b)))
        need(verdict is not False)
    else:
        need(function(a, b))


def position(dim: Any, rank: int) -> int:
    """A dimension counted from the front."""
    need(type(dim) is int and -rank <= dim < rank)
    return int(dim) % rank


def listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers given one by one or as one sequence."""
    if len(values) == 1 and type(values[0]) in (tuple, list, torch.Size):
        values = tuple(values[0])
    need(all(type(value) in INTS for value in values))
    return values


# ---- order of dimensions -----------------------------------------------------------------------------


def permute(base: Shape, *dims: Any) -> Shape:
    rank = len(base.size)
    order = [position(dim, rank) for dim in listed(dims)]
    need(sorted(order) == list(range(rank)))
    return Shape(tuple(base.size[i] for i in order), tuple(base.stride[i] for i in order), base.offset)


def transpose(base: Shape, dim0: int, dim1: int) -> Shape:
    order = list(range(len(base.size)))
    a, b = position(dim0, len(order)), position(dim1, len(order))
    need(a != b)
    order[a], order[b] = b, a
    return permute(base, order)


def t(base: Shape) -> Shape:
    need(len(base.size) == 2)
    return transpose(base, 0, 1)


# ---- dimensions of one -------------------------------------------------------------------------------


def unsqueeze(base: Shape, dim: int) -> Shape:
    at = position(dim, len(base.size) + 1)
    step = base.size[at] * base.stride[at] if at < len(base.size) else 1
    return Shape((*base.size[:at], 1, *base.size[at:]), (*base.stride[:at], step, *base.stride[at:]), base.offset)


def squeeze(base: Shape, dim: Any = None) -> Shape:
    rank = len(base.size)
    dims = range(rank) if dim is None else dim if type(dim) in (tuple, list) else (dim,)
    asked = {position(each, rank) for each in dims}
    for i in asked:
        if is_from_data(base.size[i]):  # how many dimensions are left would depend on it
            hold(operator.ne, base.size[i], 1)
    kept = [i for i in range(rank) if i not in asked or is_from_data(base.size[i]) or base.size[i] != 1]
    return Shape(tuple(base.size[i] for i in kept), tuple(base.stride[i] for i in kept), base.offset)


def expand(base: Shape, *sizes: Any) -> Shape:
    wanted = listed(sizes)
    more = len(wanted) - len(base.size)
    need(more >= 0)
    size, stride = list(wanted), [0] * len(wanted)
    for i in reversed(range(len(wanted))):
        if i < more:
            own: Number = 1
            step: Number = size[i + 1] * stride[i + 1] if i + 1 < len(wanted) else 1
        else:
            own, step = base.size[i - more], base.stride[i - more]
        if type(wanted[i]) is int and wanted[i] == -1:
            need(i >= more)
            size[i] = own
        if is_one(own) and type(size[i]) is TracedInt and is_several(size[i]):
            stride[i] = 0  # also if it is one: the stride is arbitrary then
        elif own == size[i]:
            size[i], stride[i] = own, step
        else:
            need(own == 1 and size[i] >= 0)
    return Shape(tuple(size), tuple(stride), base.offset)


# ---- parts -------------------------------------------------------------------------------------------


def select(base: Shape, dim: int, index: Any) -> Shape:
    need(type(index) in INTS)
    at = position(dim, len(base.size))
    length = base.size[at]
    if index < 0:
        index = index + length
    need(0 <= index < length)
    offset = base.offset + index * base.stride[at]
    return Shape((*base.size[:at], *base.size[at + 1 :]), (*base.stride[:at], *base.stride[at + 1 :]), offset)


def cut(base: Shape, at: int, start: Number, length: Number, step: int = 1) -> Shape:
    """Some elements of one dimension."""
    size, stride = list(base.size), list(base.stride)
    size[at] = length
    stride[at] = stride[at] * step
    return Shape(tuple(size), tuple(stride), base.offset + start * base.stride[at])


def narrow(base: Shape, dim: int, start: Any, length: Any) -> Shape:
    need(type(start) in INTS and type(length) in INTS)
    at = position(dim, len(base.size))
    whole = base.size[at]
    if not is_from_data(start) and start < 0:
        start = start + whole
    hold(operator.ge, start, 0)
    hold(operator.ge, length, 0)
    hold(operator.le, start + length, whole)
    return cut(base, at, start, length)


def unfold(base: Shape, dimension: int, size: Any, step: Any) -> Shape:
    """Windows of one dimension, in one of their own."""
    need(type(size) in INTS and type(step) in INTS)
    at = position(dimension, len(base.size))
    hold(operator.ge, size, 0)
    hold(operator.gt, step, 0)
    hold(operator.le, size, base.size[at])
    made = cut(base, at, 0, (base.size[at] - size) // step + 1, step)
    return Shape((*made.size, size), (*made.stride, base.stride[at]))


NEAR = 4


def sliced(base: Shape, at: int, part: slice) -> Shape:
    """What a slice of one dimension is: bounds beyond the ends are the ends."""
    whole = base.size[at]
    step = 1 if part.step is None else part.step
    need(type(step) is int and step > 0)
    need(all(value is None or type(value) in INTS for value in (part.start, part.stop)))
    stop: Number = whole if part.stop is None else within(part.stop, whole)
    inside = stop is part.stop and is_before(part.start, stop)
    if part.stop is None and is_window(part.start, whole):
        start: Number = whole - whole.symbols.compute(torch.sym_min, -part.start, whole)
    else:
        start = 0 if part.start is None else within(part.start, whole, inside)
    need(start <= stop)
    length = stop - start if step == 1 else (stop - start + (step - 1)) // step
    return cut(base, at, start, length, step)


def is_before(start: Any, stop: Any) -> bool:
    """Whether a bound of a slice is so much before another one, whatever both are (`i` and `i + 4`)."""
    if type(start) is not TracedInt or type(stop) is not TracedInt:
        return False
    apart = stop.symbols.unknowns.difference(stop.number, start.number)
    return type(apart) is int and apart >= 0


def within(bound: Number, whole: Number, inside: bool = False) -> Number:
    """A bound of a slice, or the end that it lies beyond; `inside`: if not negative, it lies before another one."""
    if type(bound) is int and bound == 0:
        return 0
    if bound is whole:
        return bound
    if bound < 0:
        if is_chosen(bound, whole):
            return whole - bound.symbols.compute(torch.sym_min, -bound, whole)
        bound = bound + whole
        return bound if bound >= 0 else 0
    if inside:
        return bound
    if is_chosen(bound, whole):
        return bound.symbols.compute(torch.sym_min, bound, whole)
    return bound if bound <= whole else whole


def is_chosen(bound: Number, whole: Number) -> bool:
    """Whether a bound of a slice is a number of the program that may as well lie outside: a window, a number of best
    ones. Sizes of other tensors are likely to lie inside, and simpler then."""
    if type(bound) is not TracedInt or (type(whole) is not TracedInt and not is_near(bound, whole)):
        return False
    symbols, size = bound.symbols, abs(bound)
    sources = [symbols.sources.get(symbol) for symbol in symbols.unknowns.symbols_of(bound.number)]
    if any(source is None or source.kind != INT for source in sources):
        return False
    return symbols.settled(operator.le, size, whole) is None


def is_window(start: Any, whole: Number) -> bool:
    """Whether `x[-8:]` is all of some and a part of others: the constant is of the order of a size that varies."""
    if type(start) is not int or start >= -1 or type(whole) is not TracedInt or is_from_data(whole):
        return False
    known = whole.symbols.unknowns.hint(whole.number)
    near = known is not None and -NEAR * start >= known and -start <= NEAR * known
    return near and whole.symbols.settled(operator.le, -start, whole) is None


def is_near(bound: TracedInt, whole: int) -> bool:
    """Whether a bound, which is a number as it is, comes close to the end of a dimension; most tables have plenty."""
    known = bound.symbols.unknowns.hint(bound.number)
    return known is not None and NEAR * abs(known) >= whole and set(bound.number.terms.values()) <= {1, -1}


def getitem(base: Shape, index: Any) -> Shape:
    parts = index if type(index) is tuple else (index,)
    need(sum(part is ... for part in parts) <= 1)
    taken = sum(part is not None and part is not ... for part in parts)
    need(taken <= len(base.size))
    shape, at = base, 0
    for part in parts:
        if part is ...:
            at += len(base.size) - taken
        elif part is None:
            shape = unsqueeze(shape, at)
            at += 1
        elif type(part) in INTS:
            shape = select(shape, at, part)
        else:
            need(type(part) is slice)
            shape = sliced(shape, at, part)
            at += 1
    return shape


def split(base: Shape, split_size_or_sections: Any, dim: int = 0) -> list[Shape]:
    at = position(dim, len(base.size))
    whole = base.size[at]
    sections = split_size_or_sections
    if type(sections) is int:
        need(type(whole) is int and sections > 0)
        lengths: list[Number] = [min(sections, whole - start) for start in range(0, whole, sections)]
    else:
        lengths = list(listed((sections,)))
        for length in lengths:
            hold(operator.ge, length, 0)
        hold(operator.eq, sum(lengths), whole)
    found, start = [], 0
    for length in lengths:
        found.append(cut(base, at, start, length))
        start = start + length
    return found


def chunk(base: Shape, chunks: int, dim: int = 0) -> list[Shape]:
    whole = base.size[position(dim, len(base.size))]
    need(type(whole) is int and type(chunks) is int and chunks > 0)
    return split(base, -(-whole // chunks), dim)


def unbind(base: Shape, dim: int = 0) -> list[Shape]:
    whole = base.size[position(dim, len(base.size))]
    need(type(whole) is int)
    return [select(base, dim, i) for i in range(whole)]


# ---- other groupings ---------------------------------------------------------------------------------


def completed(base: Shape, sizes: Sequence[Any]) -> tuple[Number, ...]:
    """A size in which -1 stands for what is left."""
    total = math.prod(base.size)
    open_ = [i for i, size in enumerate(sizes) if type(size) is int and size == -1]
    need(len(open_) < 2)
    if not open_:
        need(math.prod(sizes) == total)
        return tuple(sizes)
    rest = math.prod(size for i, size in enumerate(sizes) if i not in open_)
    meet(total, rest)
    need(rest > 0 and total % rest == 0)
    made = total // rest
    if type(made) is TracedInt and surely(operator.gt, total, 0):
        made.symbols.follows(operator.ge, made, 1)
    return tuple(made if i in open_ else size for i, size in enumerate(sizes))


def view(base: Shape, *sizes: Any) -> Shape:
    size = completed(base, listed(sizes))
    with overlooking(base.size):  # what is a view for other sizes is one for one, too
        stride = regrouped(base, size)
    if stride is None:
        raise Decline
    return Shape(size, stride, base.offset)


def reshape(base: Shape, *sizes: Any, shape: Any = None) -> Shape | Copied:
    size = completed(base, listed(sizes if shape is None else (*sizes, shape)))
    with overlooking(base.size) as ones:
        stride = regrouped(base, size)
    if stride is not None:
        return Shape(size, stride, base.offset)
    if lies_alike(base, size, None, ones):
        return Copied(size, frozenset(ones))
    made = either_stride(base, size, ones)
    if made is not None:
        return Copied(size, frozenset(ones), made)
    told, others = telling(base, size, ones)
    if others:
        symbols = next(length.symbols for length in base.size if type(length) is TracedInt)
        if not any(symbols.compare(operator.eq, symbols.unknowns.all[one].number, 1) for one in told):
            return Copied(size, others)
    stride = regrouped(base, size)  # it matters
    return Copied(size) if stride is None else Shape(size, stride, base.offset)


def flatten(base: Shape, start_dim: int = 0, end_dim: int = -1) -> Shape | Copied:
    rank = len(base.size)
    first, last = position(start_dim, rank), position(end_dim, rank)
    need(first < last)
    joined = math.prod(base.size[first : last + 1])
    return reshape(base, (*base.size[:first], joined, *base.size[last + 1 :]))


def unflatten(base: Shape, dim: int, sizes: Any) -> Shape:
    at = position(dim, len(base.size))
    inner = completed(Shape((base.size[at],), (1,)), listed((sizes,)))
    return view(base, (*base.size[:at], *inner, *base.size[at + 1 :]))


VIEWS: dict[str, Callable[..., Any]] = {
    "permute": permute,
    "transpose": transpose,
    "swapaxes": transpose,
    "swapdims": transpose,
    "t": t,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "expand": expand,
    "select": select,
    "narrow": narrow,
    "unfold": unfold,
    "getitem": getitem,
    "split": split,
    "chunk": chunk,
    "unbind": unbind,
    "view": view,
    "reshape": reshape,
    "flatten": flatten,
    "unflatten": unflatten,
}
