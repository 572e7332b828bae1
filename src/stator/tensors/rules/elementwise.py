"""Elementwise operations: the common size, the common type, and strides that follow the operands."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from stator.shapes.scalar import TracedInt
from stator.tensors.meta import Meta, intern
from stator.tensors.rules.layout import (
    are_exact,
    are_in_order,
    broadcast,
    copied,
    elementwise,
    has_one,
    is_definite,
    is_row_major,
    is_surely_row_major,
    suggests_channels_last,
)
from stator.tensors.rules.table import CPU, FLOATS, KNOWN, SAME, Fresh, Rule, is_meta, need, register

_C = torch._C._nn
_SMALL = 2**31  # larger integers do not fit everywhere


def is_number(value: Any) -> bool:
    """Whether a value is a plain Python number that fits any type."""
    kind = type(value)
    return kind in (float, bool) or (kind is int and -_SMALL < value < _SMALL)


def is_operand(value: Any) -> bool:
    """Whether a value may stand for a tensor in arithmetic."""
    return is_number(value) or type(value) is TracedInt


@functools.cache
def _promoted(a: Any, b: Any, default: torch.dtype) -> torch.dtype:
    """torch's own answer for operands given as (type, whether it has dimensions), or as a type of number."""
    with torch._C.DisableTorchFunction():
        return torch.result_type(*map(_example, (a, b)))


def _example(kind: Any) -> Any:
    return kind(1) if isinstance(kind, type) else torch.empty((1,) * kind[1], dtype=kind[0])


def promoted(a: Any, b: Any) -> torch.dtype:
    """The type that two operands are brought to."""
    return _promoted(_kind(a), _kind(b), torch.get_default_dtype())


def _kind(operand: Any) -> Any:
    if is_meta(operand):
        return operand.dtype, bool(operand.size)
    return int if type(operand) is TracedInt else type(operand)


def _common(*operands: Any, dtype: torch.dtype, brought: torch.dtype | None = None) -> Fresh:
    """A result of a type; operands that are not of the type they are brought to are copied to that first."""
    metas = [x if brought is None or x.dtype is brought else _converted(x) for x in operands if is_meta(x)]
    need(metas and all(is_meta(x) or is_operand(x) for x in operands))
    shape = broadcast([meta.size for meta in metas])
    need(shape is not None)
    assert shape is not None
    if not are_in_order(shape, metas) and not are_exact(metas):
        need(all(map(is_definite, metas)))
        if not all(map(is_surely_row_major, metas)):  # see is_definite
            need(not has_one(shape) or all(is_row_major(meta) or len(meta.size) == len(shape) for meta in metas))
    return Fresh(shape, dtype, elementwise(shape, metas, len(metas) < len(operands)))


def _converted(meta: Meta) -> Meta:
    """A copy in another type, as far as its layout matters."""
    return intern((meta.key[0], copied(meta), *meta.key[2:])) if type(meta) is Meta else meta


def _accepts(a: Any, b: Any) -> None:
    need(is_meta(a) or is_meta(b))
    need(all(is_meta(x) or is_operand(x) for x in (a, b)))
    if TracedInt in (type(a), type(b)):  # any value fits
        need(all(not is_meta(x) or x.dtype in FLOATS or x.dtype is torch.int64 for x in (a, b)))


def _arithmetic(a: Any, b: Any) -> Fresh:
    _accepts(a, b)
    dtype = promoted(a, b)
    return _common(a, b, dtype=dtype, brought=dtype)


def _numeric(a: Any, b: Any) -> Fresh:
    """Arithmetic that truth values are not made for."""
    need(not any(type(x) is bool or (is_meta(x) and x.dtype is torch.bool) for x in (a, b)))
    return _arithmetic(a, b)


def _between(a: Meta, b: Meta) -> Fresh:
    """Functions of two tensors that take no numbers."""
    need(is_meta(a) and is_meta(b))
    return _arithmetic(a, b)


def _division(a: Any, b: Any) -> Fresh:
    need(is_meta(a) or is_definite(b))  # eager multiplies the reciprocal
    made = _numeric(a, b)
    if made.dtype in FLOATS:
        return made
    return _common(a, b, dtype=torch.get_default_dtype(), brought=torch.get_default_dtype())


def _power(a: Any, b: Any) -> Fresh:
    need(is_meta(a) and a.dtype in FLOATS)
    need(not is_meta(b) or b.dtype in FLOATS)
    need(is_meta(b) or is_definite(a))  # eager has functions of one tensor for these
    return _numeric(a, b)


def _bits(a: Any, b: Any) -> Fresh:
    need(all(is_meta(x) and x.dtype not in FLOATS for x in (a, b)))
    return _arithmetic(a, b)


def _comparison(a: Any, b: Any) -> Fresh:
    _accepts(a, b)
    return _common(a, b, dtype=torch.bool, brought=promoted(a, b))


def _logical(a: Meta, b: Meta) -> Fresh:
    """What is true of two tensors, of any types."""
    need(is_meta(a) and is_meta(b))
    return _comparison(a, b)


def _floating(meta: Meta) -> Fresh:
    """Functions whose results are never integers."""
    need(is_meta(meta) and (meta.dtype in FLOATS or is_row_major(meta)))
    return _common(meta, dtype=meta.dtype if meta.dtype in FLOATS else torch.get_default_dtype())


def _kept(meta: Meta) -> Fresh:
    need(is_meta(meta) and meta.dtype is not torch.bool)
    return _common(meta, dtype=meta.dtype)


def _activation(meta: Meta, inplace: bool = False) -> Fresh:
    need(inplace is False and meta.dtype in FLOATS)
    return _common(meta, dtype=meta.dtype)


def _gelu(meta: Meta, approximate: str = "none") -> Fresh:
    need(approximate in ("none", "tanh"))
    return _activation(meta)


def _prelu(meta: Meta, weight: Meta) -> Fresh:
    """A slope for each channel, or one for all."""
    need(is_meta(meta) and is_meta(weight) and meta.dtype in FLOATS and weight.dtype is meta.dtype)
    need(len(meta.size) > 1 and len(weight.size) == 1 and weight.size[0] in (1, meta.size[1]))
    need(are_exact([meta]) or is_definite(meta))
    return Fresh(tuple(meta.size), meta.dtype, copied(meta))


def _where(condition: Any, a: Any, b: Any) -> Fresh:
    need(is_meta(condition) and condition.dtype is torch.bool)
    _accepts(a, b)
    dtype = promoted(a, b)
    need(dtype in FLOATS or (is_meta(a) and is_meta(b)))
    brought = [_converted(x) if is_meta(x) and x.dtype is not dtype else x for x in (a, b)]
    return _common(condition, *brought, dtype=dtype)


def _of_three(a: Meta, b: Meta, c: Meta, *, value: Any = 1) -> Fresh:
    need(all(is_meta(x) and x.dtype is a.dtype for x in (a, b, c)) and a.dtype in FLOATS)
    need(type(value) in (int, float))
    return _common(a, b, c, dtype=a.dtype)


def _masked_fill(meta: Meta, mask: Meta, value: Any) -> Fresh:
    """A contiguous copy in any case, which is filled then."""
    need(meta.dtype in FLOATS and is_meta(mask) and mask.dtype is torch.bool and is_number(value))
    need(broadcast([meta.size, mask.size]) == tuple(meta.size))
    return Fresh(tuple(meta.size), meta.dtype)


def _clamp(meta: Meta, min: Any = None, max: Any = None) -> Fresh:
    need(meta.dtype in FLOATS and (min is not None or max is not None))
    need(all(bound is None or is_number(bound) for bound in (min, max)))
    return _common(meta, dtype=meta.dtype)


def _dropout(meta: Meta, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Fresh:
    need(meta.dtype in FLOATS and type(p) in (int, float) and 0 < p < 1 and inplace is False)
    need(training is True and is_row_major(meta))
    return Fresh(tuple(meta.size), meta.dtype, pure=False)


_FORMS = (torch.preserve_format, torch.contiguous_format)


def _to(meta: Meta, *args: Any, **kwargs: Any) -> Any:
    """Another type, or another device that is the same; a memory format matters to copies, or makes one of a tensor
    that seems to have another one."""
    form = kwargs.pop("memory_format", torch.preserve_format)
    given = [*args, *kwargs.values()]
    need(is_meta(meta) and given and set(kwargs) <= {"dtype", "device"} and form in _FORMS)
    need(len(args) + len(kwargs) == 1 or len(kwargs) == len(given))
    dtype = meta.dtype
    for value in given:
        if type(value) is torch.dtype:
            dtype = value
        else:
            need(type(value) is torch.device and value == CPU)
    if form is torch.preserve_format or (dtype is meta.dtype and not suggests_channels_last(meta)):
        return _cast(meta, dtype)
    need(dtype in KNOWN)
    return Fresh(tuple(meta.size), dtype)


def _cast(meta: Meta, dtype: torch.dtype) -> Any:
    need(is_meta(meta) and dtype in KNOWN)
    return SAME if dtype is meta.dtype else Fresh(tuple(meta.size), dtype, copied(meta))


def _casting(dtype: torch.dtype) -> Rule:
    return lambda meta: _cast(meta, dtype)


def _clone(meta: Meta, memory_format: torch.memory_format = torch.preserve_format) -> Fresh:
    need(memory_format in _FORMS)
    return Fresh(tuple(meta.size), meta.dtype, copied(meta) if memory_format is torch.preserve_format else None)


def _like(meta: Meta, dtype: torch.dtype | None = None) -> Fresh:
    wanted = meta.dtype if dtype is None else dtype
    need((are_exact([meta]) or is_definite(meta)) and wanted in KNOWN)
    return Fresh(tuple(meta.size), wanted, copied(meta), grad=False)


def _full_like(meta: Meta, fill_value: Any, dtype: torch.dtype | None = None) -> Fresh:
    need(is_number(fill_value))
    return _like(meta, dtype)


_T = torch.Tensor

_ROWS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (_arithmetic, (operator.add, operator.mul, torch.add, torch.mul)),
    (_numeric, (operator.sub, torch.sub)),
    (_between, (torch.minimum, torch.maximum, _T.minimum, _T.maximum, torch.min, torch.max, _T.min, _T.max)),
    (_division, (operator.truediv, torch.div)),
    (_power, (operator.pow, torch.pow)),
    (_bits, (operator.and_, operator.or_, operator.xor)),
    (_comparison, (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)),
    (_logical, (torch.logical_and, torch.logical_or, torch.logical_xor)),
    (_logical, (_T.logical_and, _T.logical_or, _T.logical_xor)),
    (_kept, (operator.neg, torch.neg, operator.abs, torch.abs, _T.abs)),
    (_activation, (F.relu, F.silu, _C.silu, F.leaky_relu, F.elu, F.mish, torch.relu, _T.relu)),
    (_gelu, (F.gelu,)),
    (_prelu, (torch.prelu,)),
    (_where, (torch.where,)),
    (_of_three, (torch.addcmul, torch.addcdiv, _T.addcmul, _T.addcdiv)),
    (_masked_fill, (_T.masked_fill, torch.masked_fill)),
    (_clamp, (_T.clamp, torch.clamp)),
    (_dropout, (F.dropout,)),
    (_to, (_T.to,)),
    (_clone, (_T.clone, torch.clone)),
    (_like, (torch.zeros_like, torch.ones_like)),
    (_full_like, (torch.full_like,)),
)

_FLOATING = "exp log sqrt rsqrt tanh sigmoid sin cos erf log1p expm1 reciprocal"

_CASTS: tuple[tuple[Any, torch.dtype], ...] = (
    (_T.float, torch.float32),
    (_T.double, torch.float64),
    (_T.half, torch.float16),
    (_T.bfloat16, torch.bfloat16),
    (_T.long, torch.int64),
    (_T.int, torch.int32),
    (_T.bool, torch.bool),
)

for _rule, _functions in _ROWS:
    register(_rule, _functions)
for _name in _FLOATING.split():
    register(_floating, (getattr(torch, _name), getattr(_T, _name)))
register(_floating, (F.tanh, F.sigmoid))
for _method, _dtype in _CASTS:
    register(_casting(_dtype), (_method,))
