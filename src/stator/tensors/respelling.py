"""Operations that torch knows for constant ints only, as others that take symbols.

They are for tensors that lie in order, and for numbers that torch accepts; for others the call is made as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors.rules.layout import is_row_major
from stator.tensors.traced import TracedTensor


def respelled(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of such a call with a symbolic int; None if it is to be made as it is."""
    if not args or type(args[0]) is not TracedTensor:
        return None
    if TracedInt not in map(type, args) and TracedInt not in map(type, kwargs.values()):
        return None
    try:
        return CALLS[func](*args, **kwargs)
    except TypeError:  # no such arguments
        return None


def _takes(x: Any, factor: Any) -> bool:
    """Whether pixels can be regrouped; by one there would be nothing to copy."""
    if type(factor) is not TracedInt or len(x.shape) < 3 or not is_row_major(x._meta):
        return False
    return bool(factor > 1) and all(bool(size > 0) for size in x.shape)


def _is_copied(height: Any, width: Any) -> bool:
    """Whether elements change places, so that the result has memory of its own."""
    return bool(height > 1) or bool(width > 1)


def _shuffled(input: Any, upscale_factor: Any) -> Any:
    """`pixel_shuffle`."""
    if not _takes(input, upscale_factor):
        return None
    *batch, channels, height, width = input.shape
    times, first = upscale_factor, len(batch)
    if channels % (times * times) != 0 or not _is_copied(height, width):
        return None
    kept = channels // (times * times)
    parts = input.reshape(*batch, kept, times, times, height, width)
    order = [*range(first + 1), first + 3, first + 1, first + 4, first + 2]
    return parts.permute(order).reshape(*batch, kept, height * times, width * times)


def _gathered(input: Any, downscale_factor: Any) -> Any:
    """`pixel_unshuffle`."""
    if not _takes(input, downscale_factor):
        return None
    *batch, channels, height, width = input.shape
    times, first = downscale_factor, len(batch)
    if height % times != 0 or width % times != 0 or not _is_copied(height // times, width // times):
        return None
    parts = input.reshape(*batch, channels, height // times, times, width // times, times)
    order = [*range(first + 1), first + 2, first + 4, first + 1, first + 3]
    return parts.permute(order).reshape(*batch, channels * times * times, height // times, width // times)


def _diagonal(input: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    """The first diagonal of what begins further to the right, or below."""
    rank = len(input.shape)
    if type(offset) is not TracedInt or not all(type(dim) is int and -rank <= dim < rank for dim in (dim1, dim2)):
        return None
    if dim1 % rank == dim2 % rank:
        return None
    along, start = (dim2, offset) if offset >= 0 else (dim1, -offset)
    if not start < input.shape[along]:
        return None
    return input.narrow(along, start, input.shape[along] - start).diagonal(0, dim1, dim2)


CALLS: dict[Any, Callable[..., Any]] = {
    torch.pixel_shuffle: _shuffled,
    torch.pixel_unshuffle: _gathered,
    torch.diagonal: _diagonal,
    torch.Tensor.diagonal: _diagonal,
}
