"""What a forward pass of Inductor keeps for the backward one, with strides that vary as its sizes do.

AOTAutograd tells the backward pass how Inductor has laid out what is kept in numbers of the call that is compiled,
which would make constants of the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def restrided(inputs: Sequence[Any]) -> list[Any]:
    """The same tensors; those of varying sizes whose strides are plain numbers have the strides these stand for."""
    return [_restrided(one) if isinstance(one, torch.Tensor) else one for one in inputs]


def _restrided(tensor: torch.Tensor) -> torch.Tensor:
    sizes, strides = tensor.shape, tensor.stride()
    if not _varies(sizes) or _varies(strides):
        return tensor
    found = _dense(sizes, strides)
    return tensor if found is None else tensor.as_strided(sizes, found)


def _varies(numbers: Sequence[Any]) -> bool:
    return any(isinstance(number, torch.SymInt) for number in numbers)


def _dense(sizes: Sequence[Any], strides: Sequence[int]) -> list[Any] | None:
    """Strides of elements that lie next to each other in this order of the dimensions; None if they do not."""
    hints = [size if type(size) is int else size.node.hint for size in sizes]
    if any(hint is None or (hint == 1 and type(size) is not int) for hint, size in zip(hints, sizes, strict=True)):
        return None  # one that is 1 in this call could lie anywhere
    found: list[Any] = list(strides)
    extent: Any = 1
    reach = 1
    for dim in sorted(range(len(strides)), key=lambda dim: (strides[dim], hints[dim])):
        if strides[dim] != reach:
            return None
        found[dim] = extent
        extent, reach = extent * sizes[dim], reach * hints[dim]
    return found
