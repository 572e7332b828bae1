"""Factories that read Python data, when symbolic numbers or tensors are among it: one tensor per number, stacked."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedInt
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

_LEAVES = frozenset({int, float, bool, TracedInt, TracedFloat})
_OPTIONS = frozenset({"dtype", "device"})
_DTYPES = (torch.int64, torch.float32, torch.float64)
_NARROW: dict[torch.dtype, tuple[int, int]] = {  # ints of which torch makes the same in `full`, and no error
    **{dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max) for dtype in (torch.int8, torch.int16, torch.int32)},
    torch.uint8: (0, 255),
    torch.float16: (-65504, 65504),
    torch.bfloat16: (-(2**24), 2**24),
}


def leaves_of(data: Any) -> tuple[list[Any], tuple[int, ...]] | None:
    """Numbers in order, and the shape; None if the data has none, or holds something else."""
    if type(data) in _LEAVES or _is_scalar(data):
        return [data], ()
    if type(data) not in (list, tuple, torch.Size) or not data:
        return None
    parts = [leaves_of(item) for item in data]
    first = parts[0]
    if first is None or any(part is None or part[1] != first[1] for part in parts):
        return None
    return [leaf for part in parts if part is not None for leaf in part[0]], (len(parts), *first[1])


def _is_scalar(data: Any) -> bool:
    """A tensor that is read as a number; torch warns about those that require grad."""
    return type(data) is TracedTensor and not data._meta.size and not data._meta.requires_grad


def is_symbolic(data: Any) -> bool:
    """Whether there is a symbolic number in it."""
    if isinstance(data, (list, tuple)):
        return any(map(is_symbolic, data))
    return type(data) is TracedInt or type(data) is TracedFloat


def constants(data: Any) -> Any:
    """The same data with the floats in it as guarded constants; torch asks symbolic ints itself."""
    if type(data) in (list, tuple):
        return type(data)(map(constants, data))
    return data.decay() if type(data) is TracedFloat else data


def assembled(recorder: Recorder, data: Any, options: dict[str, Any]) -> Any:
    """The tensor of this data, or NotImplemented where only the numbers themselves will do."""
    found = leaves_of(data)
    if found is None or not options.keys() <= _OPTIONS:
        return NotImplemented
    leaves, shape = found
    dtype = options.get("dtype") or _dtype_of(leaves)
    if dtype not in _DTYPES and not all(_fits(leaf, dtype) for leaf in leaves):
        return NotImplemented
    made = [_scalar(recorder, leaf, dtype, options.get("device")) for leaf in leaves]
    if shape == ():
        return made[0]
    stacked = recorder.call(torch.stack, (made,))
    return stacked if len(shape) == 1 else recorder.call(torch.Tensor.reshape, (stacked, shape))


def _fits(leaf: Any, dtype: torch.dtype) -> bool:
    """Whether an int is one that a dtype of few bits holds; guarded."""
    bounds = _NARROW.get(dtype)
    if bounds is None or type(leaf) not in (int, TracedInt):
        return False
    if type(leaf) is int:
        return bounds[0] <= leaf <= bounds[1]
    symbols = leaf.symbols
    if symbols.is_unbacked(leaf):
        return False
    return all(symbols.compare(*asked) for asked in ((operator.ge, leaf, bounds[0]), (operator.le, leaf, bounds[1])))


def _dtype_of(leaves: list[Any]) -> torch.dtype:
    return functools.reduce(torch.promote_types, map(_own_dtype, leaves))


def _own_dtype(leaf: Any) -> torch.dtype:
    if type(leaf) is TracedTensor:
        return leaf._meta.dtype
    return {bool: torch.bool, int: torch.int64, TracedInt: torch.int64}.get(type(leaf), torch.get_default_dtype())


def _scalar(recorder: Recorder, leaf: Any, dtype: torch.dtype, device: Any) -> Any:
    if type(leaf) is TracedTensor:
        made = recorder.call(torch.Tensor.clone, (leaf,))
        return recorder.call(torch.Tensor.to, (made, leaf._meta.device if device is None else device, dtype))
    if type(leaf) is TracedFloat:
        if dtype.is_floating_point:
            made = recorder.call(torch.Tensor.clone, (leaf.tensor(dtype),))
            return made if device is None else recorder.call(torch.Tensor.to, (made, device))
        leaf = leaf.decay()
    return recorder.call(torch.full, ((), leaf), {"dtype": dtype, **({} if device is None else {"device": device})})
