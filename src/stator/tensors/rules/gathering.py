"""Operations that join, pick or sum elements, and tensors made from nothing."""

from __future__ import annotations

import operator
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors import products
from stator.tensors.meta import Meta
from stator.tensors.rules.elementwise import is_number
from stator.tensors.rules.layout import (
    broadcast,
    channels_last,
    has_one,
    is_known_row_major,
    is_row_major,
    is_smaller,
    is_surely_row_major,
    suggests_channels_last,
    surely,
)
from stator.tensors.rules.symbolic_views import is_from_data
from stator.tensors.rules.table import CPU, FLOATS, INTEGERS, KNOWN, Fresh, is_meta, need, register
from stator.tensors.rules.views import on_meta


def _dim(dim: Any, rank: int) -> int:
    need(type(dim) is int and -rank <= dim < rank)
    return dim % rank


def _cat(tensors: Any, dim: int = 0) -> Fresh:
    need(type(tensors) in (list, tuple) and tensors and all(is_meta(meta) for meta in tensors))
    dtype = tensors[0].dtype
    need(all(meta.dtype is dtype for meta in tensors))
    joined = [meta for meta in tensors if meta.size != (0,)]  # an empty vector is no part, whatever the others are
    need(joined)
    first = joined[0]
    rank = len(first.size)
    need(all(len(meta.size) == rank and (1 < rank < 4 or 0 not in meta.size) for meta in joined))
    need(rank < 4 or all(is_surely_row_major(meta) or is_row_major(meta) or not has_one(meta.size) for meta in joined))
    at = _dim(dim, rank)
    rest = (*first.size[:at], *first.size[at + 1 :])
    need(all((*meta.size[:at], *meta.size[at + 1 :]) == rest for meta in joined))
    total = sum(meta.size[at] for meta in joined)
    size = (*rest[:at], total, *rest[at:])
    last = len(joined) == len(tensors) and all(map(suggests_channels_last, joined))
    return Fresh(size, dtype, channels_last(size) if last else None)


def _stack(tensors: Any, dim: int = 0) -> Fresh:
    need(type(tensors) in (list, tuple) and tensors and all(is_meta(meta) for meta in tensors))
    first = tensors[0]
    need(all(meta.dtype is first.dtype and meta.size == first.size and is_row_major(meta) for meta in tensors))
    at = _dim(dim, len(first.size) + 1)
    return Fresh((*first.size[:at], len(tensors), *first.size[at:]), first.dtype)


def _reduced(input: Meta, dim: Any, keepdim: Any) -> tuple[int, ...]:
    need(type(keepdim) is bool)
    rank = len(input.size)
    need(rank)
    if dim is None and not keepdim:
        return ()
    if dim is None:
        dims = set(range(rank))
    else:
        given = [_dim(d, rank) for d in ((dim,) if type(dim) is int else tuple(dim))]
        dims = set(given)
        need(given and len(dims) == len(given))
    in_order = (
        not keepdim and not is_known_row_major(input) and _descends(input, [i for i in range(rank) if i not in dims])
    )
    need(in_order or is_row_major(input))
    return tuple(1 if i in dims else n for i, n in enumerate(input.size) if keepdim or i not in dims)


def _descends(input: Meta, dims: list[int]) -> bool:
    """Whether these dimensions follow each other in memory as in a contiguous tensor."""
    strides = [input.stride[i] for i in dims]
    return not has_one(input.size) and 0 not in input.stride and all(map(is_smaller, strides[1:], strides))


def _sum(input: Meta, dim: Any = None, keepdim: bool = False) -> Fresh:
    dtype = input.dtype if input.dtype in FLOATS else torch.int64
    return Fresh(_reduced(input, dim, keepdim), dtype)


def _mean(input: Meta, dim: Any = None, keepdim: bool = False) -> Fresh:
    need(input.dtype in FLOATS)
    return Fresh(_reduced(input, dim, keepdim), input.dtype)


def _accumulated(input: Meta, dim: int) -> Fresh:
    """Sums or products of all elements up to each one."""
    _dim(dim, len(input.size))
    return Fresh(tuple(input.size), input.dtype if input.dtype in FLOATS else torch.int64)


def _truth(input: Meta, dim: Any = None, keepdim: bool = False) -> Fresh:
    need(dim is None or type(dim) is int)
    return Fresh(_reduced(input, dim, keepdim), torch.bool)


def _position(input: Meta, dim: Any = None, keepdim: bool = False) -> Fresh:
    need(input.dtype is not torch.bool and (type(dim) is int or (dim is None and keepdim is False)))
    return Fresh(_reduced(input, dim, keepdim), torch.int64)


def _gather(input: Meta, dim: int, index: Meta) -> Fresh:
    rank = len(input.size)
    need(is_meta(index) and index.dtype is torch.int64 and rank == len(index.size) > 0)
    at = _dim(dim, rank)
    need(all(i == at or index.size[i] <= input.size[i] for i in range(rank)))
    return Fresh(tuple(index.size), input.dtype)


def _index_select(input: Meta, dim: int, index: Meta) -> Fresh:
    need(is_meta(index) and index.dtype in INTEGERS and len(index.size) == 1 and is_row_major(input))
    at = _dim(dim, len(input.size))
    return Fresh((*input.size[:at], index.size[0], *input.size[at + 1 :]), input.dtype)


basic = on_meta(operator.getitem)  # positions and slices


def _getitem(input: Meta, index: Any) -> Any:
    """Positions and slices give a view; one integer tensor for each dimension picks elements."""
    parts = index if type(index) is tuple else (index,)
    if not parts or not all(is_meta(part) for part in parts):
        need(all(part is None or part is ... or type(part) in (int, TracedInt, slice) for part in parts))
        return basic(input, index)
    if len(parts) == 1 and parts[0].dtype is torch.int64 and parts[0].size and is_row_major(parts[0]):
        need(input.size and is_row_major(input))
        return Fresh((*parts[0].size, *input.size[1:]), input.dtype)
    need(len(parts) == len(input.size) and all(part.dtype is torch.int64 and is_row_major(part) for part in parts))
    need(is_row_major(input) and all(part.size for part in parts))  # a tensor without dimensions is read as a number
    shape = broadcast([part.size for part in index])
    need(shape is not None)
    assert shape is not None
    return Fresh(shape, input.dtype)


def _pad(input: Meta, pad: Any, mode: str = "constant", value: Any = None) -> Fresh:
    need(mode == "constant" and (value is None or is_number(value)) and is_row_major(input))
    need(type(pad) in (tuple, list) and all(type(n) in (int, TracedInt) and n >= 0 for n in pad))
    need(len(pad) % 2 == 0 and len(pad) <= 2 * len(input.size))
    size = list(input.size)
    for i in range(len(pad) // 2):
        size[-1 - i] = size[-1 - i] + pad[2 * i] + pad[2 * i + 1]
    return Fresh(tuple(size), input.dtype)


def _roll(input: Meta, shifts: Any, dims: Any = None) -> Fresh:
    need(is_row_major(input) and (dims is None or input.size))
    dims = () if dims is None else dims
    given = [(value,) if type(value) in (int, TracedInt) else tuple(value) for value in (shifts, dims)]
    need(given[0] and len(given[0]) == len(given[1] or (0,)))
    for dim in given[1]:
        _dim(dim, len(input.size))
    return Fresh(tuple(input.size), input.dtype)


def _known(dtype: Any, device: Any, default: torch.dtype) -> torch.dtype:
    need(device is None or device == CPU or device == "cpu")
    found = default if dtype is None else dtype
    need(found in KNOWN)
    return found


def _arange(*bounds: Any, dtype: Any = None, device: Any = None) -> Fresh:
    need(0 < len(bounds) < 4 and all(type(b) is TracedInt or (type(b) is int and abs(b) < 2**31) for b in bounds))
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    need(type(step) is int and step != 0)
    count = -((start - end) // step) if step != 1 else end - start
    if step == 1 and is_from_data(count):
        count.symbols.suppose(operator.ge, count, 0)
    else:
        need(count > 0)
    dtype = _known(dtype, device, torch.int64)
    need(dtype is not torch.bool)
    return Fresh((count,), dtype)


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and type(size[0]) in (tuple, list, torch.Size):
        size = tuple(size[0])
    need(all(type(n) in (int, TracedInt) for n in size))
    for n in size:
        if is_from_data(n):
            n.symbols.suppose(operator.ge, n, 0)
        elif not surely(operator.ge, n, 0):
            need(n > 0)
    return size


def _strides(size: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of a new tensor that may be empty: nothing is asked."""
    strides: list[Any] = [1] * len(size)
    for i in range(len(size) - 1, 0, -1):
        n = size[i]
        least = n if surely(operator.ge, n, 1) or is_from_data(n) else n.symbols.compute(torch.sym_max, n, 1)
        strides[i - 1] = strides[i] * least
    return tuple(strides)


def _made(size: tuple[Any, ...], dtype: torch.dtype, grad: bool = True) -> Fresh:
    """An amount of padding may be zero, and is in another call."""
    sizes = _sizes(size)
    whole = all(surely(operator.ge, n, 1) or is_from_data(n) for n in sizes)
    return Fresh(sizes, dtype, None if whole else _strides(sizes), grad)


def _filled(*size: Any, dtype: Any = None, device: Any = None) -> Fresh:
    return _made(size, _known(dtype, device, torch.get_default_dtype()))


def _new_filled(input: Meta, *size: Any, dtype: Any = None, device: Any = None) -> Fresh:
    return _made(size, _known(dtype, device, input.dtype), grad=False)


def _full(size: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Fresh:
    need(is_number(fill_value) or type(fill_value) is TracedInt)
    kinds = {bool: torch.bool, int: torch.int64, TracedInt: torch.int64}
    default = kinds.get(type(fill_value), torch.get_default_dtype())
    return _made((size,), _known(dtype, device, default))


_T = torch.Tensor

register(_cat, [torch.cat], empty=True)
register(_stack, [torch.stack])
register(_sum, [torch.sum, _T.sum])
register(_mean, [torch.mean, _T.mean])
register(_accumulated, [torch.cumsum, _T.cumsum, torch.cumprod, _T.cumprod, products.cumprod])
register(_truth, [torch.any, _T.any, torch.all, _T.all])
register(_position, [torch.argmax, _T.argmax, torch.argmin, _T.argmin])
register(_gather, [torch.gather, _T.gather])
register(_index_select, [torch.index_select, _T.index_select])
register(_getitem, [operator.getitem])
register(_pad, [torch.nn.functional.pad])
register(_roll, [torch.roll, _T.roll])
register(_arange, [torch.arange])
register(_filled, [torch.zeros, torch.ones])
register(_full, [torch.full])
register(_new_filled, [_T.new_zeros, _T.new_ones])
