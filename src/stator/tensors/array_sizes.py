"""Sizes of what numpy makes of arrays whose sizes vary, and the views of them that torch makes as numpy does.

A size rule is called like the function of numpy, with `Meta` for arrays, and gives the size of a new array, or of one
that is written to. What a rule does not know it declines: then the sizes become constants.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors.array_calls import np
from stator.tensors.rules.layout import broadcast, is_surely_row_major
from stator.tensors.rules.table import is_meta, need

Sizes = tuple[Any, ...]
NUMBERS = frozenset({int, float, complex, bool, TracedInt})


# ---- sizes --------------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether a value is one number: of Python, or a scalar of numpy."""
    return type(value) in NUMBERS or (is_meta(value) and not value.size)


def _common(*operands: Any) -> Sizes:
    shape = broadcast([meta.size for meta in operands if is_meta(meta)])
    need(shape is not None)
    assert shape is not None
    return shape


def _elementwise(*operands: Any, dtype: Any = None, **tolerances: Any) -> Sizes:
    need(all(type(value) in (int, float, bool) for value in tolerances.values()))
    need(all(is_meta(x) or type(x) in NUMBERS for x in operands))
    for x in operands:
        if type(x) is TracedInt:  # which type comes out must not depend on the number
            need(all(meta.dtype in _ROOMY for meta in operands if is_meta(meta)))
    return _common(*operands)


_ROOMY = frozenset({torch.float32, torch.float64, torch.int64})


def _kept(array: Any, *rest: Any, **named: Any) -> Sizes:
    need(is_meta(array) and not any(is_meta(x) or type(x) in (list, tuple) for x in (*rest, *named.values())))
    return tuple(array.size)


def _copied(array: Any, dtype: Any = None, copy: Any = True) -> Sizes:
    """A copy, or the array itself."""
    need(is_meta(array) and not is_meta(dtype))
    return tuple(array.size)


def _in_order(array: Any, dtype: Any = None) -> Sizes:
    """A copy, unless the array lies in the order of its axes."""
    need(is_surely_row_major(array))
    return _copied(array, dtype)


def _clipped(array: Any, *bounds: Any, min: Any = None, max: Any = None) -> Sizes:
    need(is_meta(array))
    return _elementwise(array, *(x for x in (*bounds, min, max) if x is not None))


def _filled(array: Any, value: Any = 0, dtype: Any = None) -> Sizes:
    need(is_meta(array) and type(value) in NUMBERS)
    return tuple(array.size)


def _axes(rank: int, axis: Any) -> set[int]:
    """Which axes an argument says."""
    given = axis if type(axis) is tuple else (axis,)
    need(all(type(one) is int and -rank <= one < rank for one in given))
    found = {one % rank for one in given}
    need(len(found) == len(given))
    return found


def _reduced(array: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, ddof: Any = 0) -> Sizes:
    need(is_meta(array) and type(keepdims) is bool and not is_meta(dtype) and type(ddof) is int)
    away = set(range(len(array.size))) if axis is None else _axes(len(array.size), axis)
    if keepdims:
        return tuple(1 if i in away else size for i, size in enumerate(array.size))
    return tuple(size for i, size in enumerate(array.size) if i not in away)


def _extreme(array: Any, axis: Any = None, *, keepdims: Any = False) -> Sizes:
    return _reduced(array, axis, keepdims=keepdims)


def _accumulated(array: Any, axis: Any = None, dtype: Any = None) -> Sizes:
    need(is_meta(array))
    if axis is None:
        return (math.prod(array.size),)
    _axes(len(array.size), axis)
    return tuple(array.size)


def _flat(array: Any) -> Sizes:
    return (math.prod(array.size),)


def _along(array: Any, axis: Any = -1, kind: Any = None) -> Sizes:
    need(is_meta(array))
    _axes(len(array.size), axis)
    return tuple(array.size)


def _fewer(array: Any, n: Any = 1, axis: Any = -1) -> Sizes:
    need(is_meta(array) and type(n) is int and n >= 0)
    (at,) = _axes(len(array.size), axis)
    need(array.size[at] > n)
    return tuple(size - n if i == at else size for i, size in enumerate(array.size))


def _repeated(array: Any, repeats: Any, axis: Any = None) -> Sizes:
    need(is_meta(array) and type(repeats) in (int, TracedInt) and repeats > 0)
    if axis is None:
        return (math.prod(array.size) * repeats,)
    (at,) = _axes(len(array.size), axis)
    return tuple(size * repeats if i == at else size for i, size in enumerate(array.size))


def _multiplied(a: Any, b: Any) -> Sizes:
    """`matmul`: the last two axes are contracted, those before are common."""
    need(is_meta(a) and is_meta(b) and a.size and b.size)
    inner = b.size[-2] if len(b.size) > 1 else b.size[0]
    need(a.size[-1] == inner)
    before = broadcast([a.size[:-2], b.size[:-2]])
    need(before is not None)
    assert before is not None
    return (*before, *a.size[-2:-1], *(b.size[-1:] if len(b.size) > 1 else ()))


def _dotted(a: Any, b: Any) -> Sizes:
    need(is_meta(a) and is_meta(b) and len(a.size) <= 2 and len(b.size) <= 2)
    return _multiplied(a, b)


def _outer(a: Any, b: Any) -> Sizes:
    return (math.prod(a.size), math.prod(b.size))


def _parts(arrays: Any) -> list[Sizes]:
    need(type(arrays) in (list, tuple) and arrays and all(map(is_meta, arrays)))
    return [tuple(meta.size) for meta in arrays]


def _joined(arrays: Any, axis: Any = 0) -> Sizes:
    return _end_to_end(_parts(arrays), axis)


def _end_to_end(sizes: list[Sizes], axis: Any) -> Sizes:
    first = sizes[0]
    need(first and all(len(size) == len(first) for size in sizes))
    (at,) = _axes(len(first), axis)
    need(all(a == b for size in sizes[1:] for i, (a, b) in enumerate(zip(first, size, strict=True)) if i != at))
    return (*first[:at], sum(size[at] for size in sizes), *first[at + 1 :])


def _stacked(arrays: Any, axis: Any = 0) -> Sizes:
    sizes = _parts(arrays)
    (at,) = _axes(len(sizes[0]) + 1, axis)
    need(all(len(size) == len(sizes[0]) for size in sizes))
    need(all(a == b for size in sizes[1:] for a, b in zip(sizes[0], size, strict=True)))
    return (*sizes[0][:at], len(sizes), *sizes[0][at:])


def _in_rows(arrays: Any) -> Sizes:
    return _end_to_end([size if len(size) > 1 else (1, *(size or (1,))) for size in _parts(arrays)], 0)


def _in_columns(arrays: Any) -> Sizes:
    sizes = [size or (1,) for size in _parts(arrays)]
    return _end_to_end(sizes, 0 if len(sizes[0]) == 1 else 1)


def _taken(array: Any, index: Any) -> Sizes:
    """`array[index]` with an array of ints."""
    need(is_meta(array) and is_meta(index) and index.dtype in (torch.int64, torch.int32) and array.size)
    return (*index.size, *array.size[1:])


def _picked(array: Any, index: Any) -> Sizes:
    """What arrays of ints or one of conditions pick, to write one number there; where they do not fit, numpy raises."""
    parts = index if type(index) is tuple else (index,)
    if is_meta(index) and index.dtype is torch.bool:
        need(len(index.size) <= len(array.size) and all(map(operator.eq, index.size, array.size)))
    else:
        need(all(part.dtype in (torch.int64, torch.int32) if is_meta(part) else _is_basic(part) for part in parts))
    return tuple(array.size)


def _padded(array: Any, width: Any, mode: Any = "constant", constant_values: Any = 0) -> Sizes:
    need(is_meta(array) and type(mode) is str and not is_meta(constant_values))
    pairs = width if type(width) in (tuple, list) and type(width[0]) in (tuple, list) else [width] * len(array.size)
    sides = [tuple(pair) if type(pair) in (tuple, list) else (pair, pair) for pair in pairs]
    need(len(sides) == len(array.size) and all(len(pair) == 2 for pair in sides))
    need(all(type(count) in (int, TracedInt) and count >= 0 for pair in sides for count in pair))
    return tuple(before + size + after for size, (before, after) in zip(array.size, sides, strict=True))


def _tiled(array: Any, times: Any) -> Sizes:
    counts = list(times) if type(times) in (tuple, list) else [times]
    need(is_meta(array) and all(type(count) in (int, TracedInt) and count > 0 for count in counts))
    rank = max(len(counts), len(array.size))
    sizes = [1] * (rank - len(array.size)) + list(array.size)
    return tuple(map(operator.mul, sizes, [1] * (rank - len(counts)) + counts))


def _part(array: Any, q: Any, axis: Any = None, keepdims: Any = False) -> Sizes:
    """`percentile`, `quantile`"""
    need(type(q) in (int, float))
    return _reduced(array, axis, keepdims=keepdims)


def _summed(equation: Any, *operands: Any) -> Sizes:
    """`einsum`, with letters alone on both sides."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    need(arrow and all(map(is_meta, operands)) and (given + result).replace(",", "").isalpha())
    lengths: dict[str, Any] = {}
    for letters, meta in zip(given.split(","), operands, strict=True):
        for letter, size in zip(letters, meta.size, strict=True):
            need(lengths.setdefault(letter, size) == size)
    return tuple(lengths[letter] for letter in result)


def _transformed(array: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Sizes:
    """`fft`, `ifft`: as many along an axis, or as many as are asked for."""
    need(is_meta(array) and (n is None or (type(n) in (int, TracedInt) and n > 0)))
    (at,) = _axes(len(array.size), axis)
    return tuple(n if i == at and n is not None else size for i, size in enumerate(array.size))


def _halved(array: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Sizes:
    """`rfft`"""
    whole = _transformed(array, n, axis, norm)
    (at,) = _axes(len(whole), axis)
    return tuple(size // 2 + 1 if i == at else size for i, size in enumerate(whole))


def _doubled(array: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Sizes:
    """`irfft`"""
    (at,) = _axes(len(array.size), axis)
    return _transformed(array, 2 * (array.size[at] - 1) if n is None else n, axis, norm)


def _diagonal(array: Any, offset: Any = 0) -> Sizes:
    """Of a square."""
    need(len(array.size) == 2 and array.size[0] == array.size[1] and type(offset) is int)
    return (array.size[0] - abs(offset),)


def _normed(array: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Sizes:
    need(axis is None or type(axis) is int)
    return _reduced(array, axis, keepdims=keepdims)


def _written(array: Any, *others: Any) -> Sizes:
    """What an operator in place leaves; the operands may not be larger."""
    need(is_meta(array))
    common = _elementwise(array, *others)
    need(len(common) == len(array.size) and all(map(operator.eq, common, array.size)))
    return tuple(array.size)


OPERATORS = "add sub mul truediv floordiv mod pow and or xor lshift rshift lt le eq ne ge gt neg pos abs invert"
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift"
RULES: dict[str, Callable[..., Sizes]] = {}
PICKED = "part:picked"  # of what `array[index] = number` writes to


def _rows(kind: str, names: str, rule: Callable[..., Sizes]) -> None:
    RULES.update({f"{kind}:{name}": rule for name in names.split()})


_rows("operator", OPERATORS, _elementwise)
_rows("operator", IN_PLACE, _written)
_rows("operator", "matmul", _multiplied)
_rows("operator", "getitem", _taken)
_rows("numpy", "where isclose sinc isreal iscomplex angle", _elementwise)
_rows("numpy", "clip", _clipped)
_rows("numpy", "round around fix nan_to_num", _kept)
_rows("numpy", "copy array asarray asanyarray", _copied)
_rows("numpy", "ascontiguousarray", _in_order)
_rows("numpy", "zeros_like ones_like full_like", _filled)
_rows("numpy", "sum mean prod std var", _reduced)
_rows("numpy", "min max amin amax all any argmin argmax median nanmin nanmax nansum nanmean nanmedian", _extreme)
_rows("numpy", "cumsum cumprod", _accumulated)
_rows("numpy", "sort argsort", _along)
_rows("numpy", "diff", _fewer)
_rows("numpy", "repeat", _repeated)
_rows("numpy", "matmul", _multiplied)
_rows("numpy", "einsum", _summed)
_rows("numpy", "pad", _padded)
_rows("numpy", "tile", _tiled)
_rows("numpy", "percentile quantile", _part)
_rows("part", "picked", _picked)
_rows("numpy", "dot", _dotted)
_rows("numpy", "outer", _outer)
_rows("numpy", "concatenate", _joined)
_rows("numpy", "stack", _stacked)
_rows("numpy", "vstack", _in_rows)
_rows("numpy", "hstack", _in_columns)
_rows("numpy", "linalg.norm", _normed)
_rows("numpy", "fft.fft fft.ifft", _transformed)
_rows("numpy", "fft.rfft", _halved)
_rows("numpy", "fft.irfft", _doubled)
_rows("numpy", "diag", _diagonal)
_rows("method", "sum mean prod", _reduced)
_rows("method", "std var", _reduced)
_rows("method", "min max all any argmin argmax", _extreme)
_rows("method", "cumsum cumprod", _accumulated)
_rows("method", "argsort", _along)
_rows("method", "repeat", _repeated)
_rows("method", "round conj conjugate fill sort", _kept)
_rows("method", "copy astype", _copied)
_rows("method", "clip", _clipped)
_rows("method", "flatten", _flat)
_rows("method", "dot", _dotted)
_rows("numpy", "float16 float32 float64 int8 int16 int32 int64 uint8 bool", _elementwise)


@functools.cache
def rule_of(name: str) -> Callable[..., Sizes] | None:
    """The rule for a call; functions of numbers that numpy applies to each element have one rule."""
    kind, _, rest = name.partition(":")
    if name not in RULES and kind == "numpy":
        function = getattr(np, rest, None)
        if isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None:
            return _elementwise
    return RULES.get(name)


def sizes_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sizes | None:
    """The sizes of the result, or None if they are not known; what is asked of sizes becomes guards."""
    rule = rule_of(name)
    try:
        return None if rule is None else rule(*args, **kwargs)
    except Exception:  # also what the rule was not written for
        return None


# ---- views --------------------------------------------------------------------------------------------


def _item(call: Any, tensor: Any, index: Any) -> Any:
    parts = index if type(index) is tuple else (index,)
    need(all(map(_is_basic, parts)))
    return call(operator.getitem, (tensor, index), {})


def _is_basic(part: Any) -> bool:
    if type(part) is slice:
        bounds = all(type(bound) in (int, TracedInt, type(None)) for bound in (part.start, part.stop))
        return bounds and (part.step is None or (type(part.step) is int and part.step > 0))
    return type(part) in (int, TracedInt, type(None), type(...))


def turned_along(index: Any, rank: int) -> tuple[int, ...]:
    """The axes along which an index turns an array without leaving anything out; none if it does something else."""
    parts = list(index) if type(index) is tuple else [index]
    gaps = [i for i, part in enumerate(parts) if part is ...]
    if len(gaps) > 1 or len(parts) - len(gaps) > rank or not all(part is ... or _is_whole(part) for part in parts):
        return ()
    for at in gaps:
        parts[at : at + 1] = [slice(None)] * (rank - len(parts) + 1)
    return tuple(axis for axis, part in enumerate(parts) if part.step == -1)


def _is_whole(part: Any) -> bool:
    """Whether a slice leaves nothing out."""
    whole = type(part) is slice and part.start is None and part.stop is None
    return whole and (part.step is None or (type(part.step) is int and part.step in (1, -1)))


def picks(index: Any) -> bool:
    """Whether arrays are among the parts of an index."""
    return any(map(is_meta, index if type(index) is tuple else (index,)))


def takes_element(index: Any, rank: int) -> bool:
    """Whether an index of a basic kind gives a scalar."""
    parts = index if type(index) is tuple else (index,)
    return len(parts) == rank and all(type(part) in (int, TracedInt) for part in parts)


def _transposed(call: Any, tensor: Any, *axes: Any) -> Any:
    rank = len(tensor._meta.size)
    if len(axes) == 1 and type(axes[0]) in (tuple, list, type(None)):
        axes = tuple(axes[0] or ())
    order = axes or tuple(reversed(range(rank)))
    need(rank > 0 and len(_axes(rank, tuple(order))) == rank)
    return call(torch.permute, (tensor, tuple(order)), {})


def _swapped(call: Any, tensor: Any, first: Any, second: Any) -> Any:
    need(_axes(len(tensor._meta.size), first) and _axes(len(tensor._meta.size), second))
    return call(torch.transpose, (tensor, first, second), {})


def _moved(call: Any, tensor: Any, source: Any, destination: Any) -> Any:
    need(type(source) is int and type(destination) is int)
    return call(torch.movedim, (tensor, source, destination), {})


def _widened(call: Any, tensor: Any, axis: Any) -> Any:
    need(type(axis) is int)
    return call(torch.unsqueeze, (tensor, axis), {})


def _squeezed(call: Any, tensor: Any, axis: Any) -> Any:
    (at,) = _axes(len(tensor._meta.size), axis)
    need(type(tensor._meta.size[at]) is int and tensor._meta.size[at] == 1)
    return call(torch.squeeze, (tensor, at), {})


def _reshaped(call: Any, tensor: Any, *sizes: Any) -> Any:
    if len(sizes) == 1 and type(sizes[0]) in (tuple, list, torch.Size):
        sizes = tuple(sizes[0])
    need(all(type(size) in (int, TracedInt) for size in sizes))
    return call(torch.reshape, (tensor, sizes), {})


def _raveled(call: Any, tensor: Any) -> Any:
    return _reshaped(call, tensor, -1)


VIEWS: dict[str, Callable[..., Any]] = {
    "operator:getitem": _item,
    "attribute:T": _transposed,
    "attribute:mT": lambda call, tensor: _swapped(call, tensor, -1, -2),
    "method:transpose": _transposed,
    "numpy:transpose": _transposed,
    "numpy:permute_dims": _transposed,
    "method:swapaxes": _swapped,
    "numpy:swapaxes": _swapped,
    "numpy:moveaxis": _moved,
    "numpy:expand_dims": _widened,
    "method:squeeze": _squeezed,
    "numpy:squeeze": _squeezed,
    "method:reshape": _reshaped,
    "numpy:reshape": _reshaped,
    "method:ravel": _raveled,
    "numpy:ravel": _raveled,
}


def flat(value: Any) -> Iterable[Any]:
    """What is in arguments, at any depth."""
    kind = type(value)
    if kind is tuple or kind is list:
        for item in value:
            yield from flat(item)
    elif kind is slice:
        yield from (value.start, value.stop, value.step)
    elif kind is dict:
        yield from flat(tuple(value.values()))
    else:
        yield value
