"""Views: torch's own C++ code computes sizes and strides of tensors without data faster than it can be done here.

With symbolic numbers they are computed in `symbolic_views`, and compared with what C++ says for their values.
"""

from __future__ import annotations

import operator
from collections.abc import ValuesView
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors.meta import Meta
from stator.tensors.rules.layout import (
    has_one,
    is_contiguous,
    is_row_major,
    is_several,
    is_surely_row_major,
    overlooking,
    row_major,
    surely,
)
from stator.tensors.rules.regrouping import Copied, Shape
from stator.tensors.rules.symbolic_views import VIEWS, is_from_data
from stator.tensors.rules.table import SAME, Fresh, Rule, View, hint, is_meta, need, register

_empty_strided = torch.empty_strided
_META = torch.device("meta")

# Methods of Tensor that only look at memory differently, or copy when they cannot.
_METHODS = """
    transpose permute t unsqueeze squeeze expand select narrow swapaxes swapdims movedim
    moveaxis split chunk unbind tensor_split split_with_sizes diagonal unfold
"""

_FUNCTIONS = """
    transpose permute t unsqueeze squeeze select narrow swapaxes swapdims movedim moveaxis
    split chunk unbind tensor_split split_with_sizes diagonal
"""


def on_meta(func: Any) -> Rule:
    symbolic = VIEWS.get(func.__name__)

    def rule(meta: Meta, *args: Any, **kwargs: Any) -> Any:
        need(is_meta(meta))
        constant = _are_constants(args) and _are_constants(kwargs.values())
        if constant and type(meta) is Meta:
            return _run(func, meta.size, meta.stride, meta.dtype, args, kwargs)
        need(symbolic is not None)
        assert symbolic is not None
        if _depends_on_data(meta) or _depends_on_data(args) or _depends_on_data(kwargs.values()):
            made = symbolic(Shape(tuple(meta.size), meta.stride), *args, **kwargs)
            return tuple(_result(part, meta) for part in made) if type(made) is list else _result(made, meta)
        size, stride = meta.wrap[:2]
        known = _run(func, size, stride, meta.dtype, hint(args), hint(kwargs))
        if known is SAME:
            need(constant and func.__name__ == "flatten")  # of one dimension: nothing depends on its size
            return SAME
        made = symbolic(Shape(tuple(meta.size), meta.stride), *args, **kwargs)
        if type(made) is list:
            need(type(known) is tuple and len(known) == len(made))
            return tuple(_agreed(part, like, meta) for part, like in zip(made, known, strict=True))
        return _agreed(made, known, meta)

    return rule


def _run(func: Any, size: Any, stride: Any, dtype: torch.dtype, args: Any, kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():
        base = _empty_strided(size, stride, dtype=dtype, device=_META)
        made = func(base, *args, **kwargs)
        if type(made) is tuple:
            return tuple(_described(item, base) for item in made)
        return _described(made, base)


def _agreed(made: Shape | Copied, known: Any, meta: Meta) -> Any:
    """A result with symbolic numbers, if it is of the kind and has the values that C++ says."""
    need(all(size != 0 for size in made.size))
    result = _result(made, meta)
    need(type(result) is type(known) and hint((result.size, result.stride)) == (known.size, known.stride))
    need(type(result) is Fresh or hint(result.offset) == known.offset)
    return result


def _result(made: Shape | Copied, meta: Meta) -> Any:
    if isinstance(made, Copied):
        stride = row_major(made.size) if made.stride is None else made.stride
        return Fresh(made.size, meta.dtype, stride, near=bool(made.near))
    return View(made.size, made.stride, made.offset)


def _depends_on_data(value: Any) -> bool:
    """Whether there are numbers that this call does not tell."""
    if isinstance(value, Meta):
        return type(value) is not Meta and (_depends_on_data(value.size) or _depends_on_data(value.stride))
    if type(value) is slice:
        return any(map(is_from_data, (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list, ValuesView)):
        return any(map(_depends_on_data, value))
    return is_from_data(value)


def _are_constants(values: Any) -> bool:
    """Whether all positions and sizes are numbers; declines what is neither: a tensor among them would be data."""
    constant = True
    for value in values:
        if type(value) in (tuple, list, torch.Size):
            constant &= _are_constants(value)
        elif type(value) is slice:
            constant &= _are_constants((value.start, value.stop, value.step))
        elif type(value) is TracedInt:
            constant = False
        else:
            need(value is None or value is ... or type(value) is int)
    return constant


def _described(made: torch.Tensor, base: torch.Tensor) -> Any:
    need(made.dtype is base.dtype and 0 not in made.shape)
    if made is base:
        return SAME
    if made.untyped_storage()._cdata != base.untyped_storage()._cdata:
        need(not made._is_view())
        return Fresh(tuple(made.shape), made.dtype, made.stride())
    need(made._is_view() and made._base is base)
    return View(tuple(made.shape), made.stride(), made.storage_offset())


def _regrouping(func: Any) -> Rule:
    run = on_meta(func)

    def rule(meta: Meta, *args: Any, **kwargs: Any) -> Any:
        made = run(meta, *args, **kwargs)
        if type(made) is View and type(meta) is Meta and not is_surely_row_major(meta):
            # FakeTensor and eager disagree about strides of ones.
            need(not has_one(meta.size) or not has_one(made.size) or is_row_major(meta))
        return made

    return rule


def _as(rule: Rule) -> Rule:
    """The same with the size of another tensor."""

    def like(meta: Meta, other: Any) -> Any:
        need(is_meta(other))
        made = rule(meta, tuple(other.size))
        need(type(made) is not Fresh or meta.requires_grad or not other.requires_grad)  # a copy of the first one
        return made

    return like


def _contiguous(meta: Meta) -> Any:
    if _may_be_in_order(meta):
        return Fresh(tuple(meta.size), meta.dtype, near=True, itself=True)
    with overlooking(meta.size) as ones:
        same = is_contiguous(meta)
    return SAME if same else Fresh(tuple(meta.size), meta.dtype, near=bool(ones), itself=bool(ones))


def _may_be_in_order(meta: Meta) -> bool:
    """Whether elements lie in order for some sizes only, as those of a slice that may be all of a tensor."""
    symbols = next((number.symbols for number in (*meta.size, *meta.stride) if type(number) is TracedInt), None)
    if symbols is None or symbols.asks or _depends_on_data(meta):
        return False
    step, certain = 1, True
    for length, stride in zip(reversed(meta.size), reversed(meta.stride), strict=True):
        if type(length) is not int or length != 1:
            if surely(operator.ne, stride, step) and is_several(length):
                return False
            certain &= surely(operator.eq, stride, step)
        step = step * length
    return not certain


_T = torch.Tensor

for _name in _METHODS.split():
    register(on_meta(getattr(_T, _name)), [getattr(_T, _name)])
for _name in _FUNCTIONS.split():
    register(on_meta(getattr(torch, _name)), [getattr(torch, _name)])
for _function in (_T.view, _T.reshape, _T.flatten, _T.unflatten, torch.reshape, torch.flatten, torch.unflatten):
    register(_regrouping(_function), [_function])
register(_as(_regrouping(_T.view)), [_T.view_as])
register(_as(_regrouping(_T.reshape)), [_T.reshape_as])
register(_as(on_meta(_T.expand)), [_T.expand_as])
register(_contiguous, [_T.contiguous])
