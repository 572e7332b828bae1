"""`torch.gradient` along dimensions whose lengths vary: differences of neighbours, in the order torch rounds them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from stator.shapes.scalar import TracedInt
from stator.shapes.scalar_ops import is_read
from stator.tensors.traced import TracedTensor


class Asked(NamedTuple):
    """What there is to know of a call: the dimensions, how far apart elements are along each, and the order."""

    dims: list[int]
    steps: list[Any]
    order: int


def asked(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: Any = 1) -> Asked | None:
    """The arguments, if they fit; None for what torch is to look at itself."""
    rank = len(input.shape)
    given = range(rank) if dim is None else [dim] if type(dim) is int else dim
    if edge_order not in (1, 2) or not isinstance(given, (range, list, tuple)) or input.dtype is torch.bool:
        return None
    if not all(type(each) is int and -rank <= each < rank for each in given):
        return None
    dims = [each % rank for each in given]
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(dims)
    if len(set(dims)) != len(dims) or len(steps) != len(dims):
        return None
    if not all(bool(input.shape[each] > edge_order) for each in dims):
        return None
    lengths = [input.shape[each] for each in dims]
    plain = {type(step) for step in steps} <= {int, float}
    fit = plain or all(_are_places(step, length) for step, length in zip(steps, lengths, strict=True))
    return Asked(dims, steps, edge_order) if fit else None


def gradient(input: Any, **options: Any) -> Any:
    """The slopes along each dimension."""
    found = None if is_read(input) else asked(input, **options)
    if found is None:
        return torch.gradient(input, **options)
    parts = zip(found.dims, found.steps, strict=True)
    return tuple(
        (_uneven if isinstance(step, torch.Tensor) else _even)(input, dim, step, found.order) for dim, step in parts
    )


def vary(input: Any = None, **options: Any) -> bool:
    """Whether these are slopes along a dimension whose length varies."""
    if type(input) is not TracedTensor or not options.keys() <= {"spacing", "dim", "edge_order"}:
        return False
    found = asked(input, **options) if TracedInt in map(type, input._meta.size) else None
    return found is not None and any(type(input.shape[dim]) is TracedInt for dim in found.dims)


def _are_places(step: Any, length: Any) -> bool:
    """Whether these are the coordinates of so many elements."""
    return isinstance(step, (torch.Tensor, TracedTensor)) and len(step.shape) == 1 and bool(step.shape[0] == length)


def _even(x: Any, dim: int, step: float, order: int) -> Any:
    """Slopes between neighbours that lie as far apart everywhere."""
    length = x.shape[dim]
    first, second = x.narrow(dim, 0, 1), x.narrow(dim, 1, 1)
    last, before = x.narrow(dim, length - 1, 1), x.narrow(dim, length - 2, 1)
    inner = (x.narrow(dim, 2, length - 2) - x.narrow(dim, 0, length - 2)) / step / 2
    if order == 1:
        left, right = (second - first) / step, (last - before) / step
    else:
        left = (first * -1.5 + second * 2 + x.narrow(dim, 2, 1) * -0.5) / step
        right = (x.narrow(dim, length - 3, 1) * 0.5 - before * 2 + last * 1.5) / step
    return torch.cat([left, inner, right], dim)


def _uneven(x: Any, dim: int, places: Any, order: int) -> Any:
    """Slopes between elements that have coordinates: those of a parabola through three of them."""
    length = x.shape[dim]
    apart = places.narrow(0, 1, length - 1) - places.narrow(0, 0, length - 1)

    def gap(start: Any, count: Any = 1) -> Any:
        return apart.narrow(0, start, count).reshape([count if each == dim else 1 for each in range(len(x.shape))])

    def at(start: Any, count: Any = 1) -> Any:
        return x.narrow(dim, start, count)

    a, b = gap(0, length - 2), gap(1, length - 2)
    inner = -b / (a * (a + b)) * at(0, length - 2) + (b - a) / (a * b) * at(1, length - 2)
    inner = inner + a / (b * (a + b)) * at(2, length - 2)
    if order == 1:
        left, right = (at(1) - at(0)) / gap(0), (at(length - 1) - at(length - 2)) / gap(length - 2)
    else:
        a, b = gap(0), gap(1)
        left = -(2 * a + b) / (a * (a + b)) * at(0) + (a + b) / (a * b) * at(1) - a / (b * (a + b)) * at(2)
        a, b = gap(length - 3), gap(length - 2)
        right = b / (a * (a + b)) * at(length - 3) - (a + b) / (a * b) * at(length - 2)
        right = right + (a + 2 * b) / (b * (a + b)) * at(length - 1)
    return torch.cat([left, inner, right], dim)
