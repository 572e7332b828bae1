"""Operations that write into their first tensor, where autograd is not involved or has nothing to change."""

from __future__ import annotations

import operator
from typing import Any

import torch

from stator.tensors.meta import Meta
from stator.tensors.rules.elementwise import is_number, promoted
from stator.tensors.rules.gathering import basic
from stator.tensors.rules.layout import broadcast, is_apart, is_dense, is_row_major
from stator.tensors.rules.table import FLOATS, SAME, View, Written, is_meta, need, register


def _fits(target: Meta, value: Any) -> None:
    """A number, or a tensor that spreads over the target."""
    need(is_meta(target) and is_apart(target) and not target.requires_grad)
    if is_meta(value):
        need(not value.requires_grad)
        need(broadcast([target.size, value.size]) == tuple(target.size))
    else:
        need(is_number(value))


def _arithmetic(target: Meta, value: Any) -> Written:
    _fits(target, value)
    need(target.dtype is not torch.bool and promoted(target, value) is target.dtype)
    return Written()


def _division(target: Meta, value: Any) -> Written:
    need(target.dtype in FLOATS)
    return _arithmetic(target, value)


def _masked_fill(target: Meta, mask: Meta, value: Any) -> Written:
    need(is_meta(mask) and mask.dtype is torch.bool and is_number(value))
    _fits(target, mask)
    _fits_type(target, value)
    return Written()


def _fits_type(target: Meta, value: Any) -> None:
    """A number that the type of the target can say."""
    need(target.dtype in FLOATS or (type(value) in (int, bool) and target.dtype is not torch.bool))


def _fill(target: Meta, value: Any) -> Written:
    need(is_number(value))
    _fits(target, value)
    _fits_type(target, value)
    return Written()


def _zero(target: Meta) -> Written:
    return _fill(target, 0)


def _copy(target: Meta, source: Meta) -> Written:
    need(is_meta(source))
    _fits(target, source)
    return Written()


def _index_add(target: Meta, dim: int, index: Meta, source: Meta) -> Written:
    need(is_meta(target) and is_dense(target) and is_meta(index) and is_meta(source))
    need(not target.requires_grad and not source.requires_grad and source.dtype is target.dtype)
    rank = len(target.size)
    need(rank == len(source.size) and type(dim) is int and -rank <= dim < rank)
    need(index.dtype is torch.int64 and len(index.size) == 1)
    need(all(n == (index.size[0] if i == dim % rank else target.size[i]) for i, n in enumerate(source.size)))
    return Written()


def _setitem(target: Meta, index: Any, value: Any) -> Written:
    """Positions and slices, or one tensor of positions; what is part of a history already stays so."""
    need(is_meta(target) and is_apart(target))
    recorded = target.requires_grad and not target.leaf
    need(recorded or not target.requires_grad)
    parts = index if type(index) is tuple else (index,)
    if len(parts) == 1 and is_meta(parts[0]):
        need(not recorded and parts[0].dtype is torch.int64 and parts[0].size and target.size and is_row_major(target))
        need(not is_meta(value) or value.dtype is target.dtype)
        size = (*parts[0].size, *target.size[1:])
    else:
        need(not any(is_meta(part) or type(part) is bool for part in parts))
        place = basic(target, index)
        size = tuple(target.size) if place is SAME else place.size
        need(place is SAME or type(place) is View)
    if is_meta(value):
        need((recorded or not value.requires_grad) and len(value.size) <= len(size))
        need(broadcast([size, value.size]) == tuple(size))
    else:
        need(is_number(value))
        _fits_type(target, value)
    return Written(nothing=True, recorded=recorded)


_T = torch.Tensor

register(_arithmetic, [operator.iadd, operator.isub, operator.imul, _T.add_, _T.sub_, _T.mul_])
register(_division, [operator.itruediv, _T.div_])
register(_masked_fill, [_T.masked_fill_])
register(_fill, [_T.fill_])
register(_zero, [_T.zero_])
register(_copy, [_T.copy_])
register(_index_add, [_T.index_add_])
register(_setitem, [operator.setitem])
