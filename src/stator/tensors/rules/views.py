"""Views: torch's own C++ code computes sizes and strides of tensors without data faster than it can be done here."""

from __future__ import annotations

from typing import Any

import torch

from stator.tensors.meta import Meta
from stator.tensors.rules.layout import is_contiguous, is_row_major
from stator.tensors.rules.table import SAME, Fresh, Rule, View, need, register

_empty_strided = torch.empty_strided
_META = torch.device("meta")

# Methods of Tensor that only look at memory differently, or copy when they cannot.
_METHODS = """
    transpose permute t unsqueeze squeeze expand unflatten select narrow swapaxes swapdims movedim
    moveaxis split chunk unbind tensor_split split_with_sizes diagonal unfold
"""

_FUNCTIONS = """
    transpose permute t unsqueeze squeeze unflatten select narrow swapaxes swapdims movedim moveaxis
    split chunk unbind tensor_split split_with_sizes diagonal
"""


def on_meta(func: Any) -> Rule:
    def rule(meta: Meta, *args: Any, **kwargs: Any) -> Any:
        need(type(meta) is Meta)
        _need_constants(args)
        _need_constants(tuple(kwargs.values()))
        with torch._C.DisableTorchFunction():
            base = _empty_strided(meta.size, meta.stride, dtype=meta.dtype, device=_META)
            made = func(base, *args, **kwargs)
            if type(made) is tuple:
                return tuple(_described(item, base) for item in made)
            return _described(made, base)

    return rule


def _need_constants(values: Any) -> None:
    """Positions and sizes only: a tensor among them would be data."""
    for value in values:
        if type(value) in (tuple, list, torch.Size):
            _need_constants(value)
        elif type(value) is slice:
            _need_constants((value.start, value.stop, value.step))
        else:
            need(value is None or value is ... or type(value) is int)


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
        need(1 not in meta.size or is_row_major(meta))  # FakeTensor and eager do not agree about strides of ones
        return run(meta, *args, **kwargs)

    return rule


def _contiguous(meta: Meta) -> Any:
    return SAME if is_contiguous(meta) else Fresh(tuple(meta.size), meta.dtype)


for _name in _METHODS.split():
    register(on_meta(getattr(torch.Tensor, _name)), [getattr(torch.Tensor, _name)])
for _name in _FUNCTIONS.split():
    register(on_meta(getattr(torch, _name)), [getattr(torch, _name)])
for _function in (torch.Tensor.view, torch.Tensor.reshape, torch.Tensor.flatten, torch.reshape, torch.flatten):
    register(_regrouping(_function), [_function])
register(_contiguous, [torch.Tensor.contiguous])
