"""Marks that users put on tensors: which dimensions vary. The attributes are those that torch's own functions set."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_static_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
)


class Bounds(NamedTuple):
    """What the user said about a dimension that varies."""

    min: int | None = None
    max: int | None = None
    strict: bool = False  # that it becomes a constant after all is an error
    unbacked: bool = False  # nothing may follow from the size of the example, which may be 0 or 1


ANY = Bounds()


class DimRange(NamedTuple):
    """Bounds that the user gave for a dimension."""

    dim: int
    min: int | None
    max: int | None


def marked_dims(marks: dict[str, Any]) -> dict[int, Bounds]:
    """Dimensions marked on the tensor, by us or by torch's functions of the same name."""
    ranges = {row.dim: (row.min, row.max) for row in marks.get("_dynamo_dynamic_range", ())}
    strict = {dim: Bounds(*ranges.get(dim, (None, None)), True) for dim in marks.get("_dynamo_dynamic_indices", ())}
    within = marks.get("_dynamo_unbacked_bounds", {})
    names = ("_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices")
    unbacked = {
        dim: Bounds(*within.get(dim, (None, None)))._replace(unbacked=True)
        for name in names
        for dim in marks.get(name, ())
    }
    return dict.fromkeys(marks.get("_dynamo_weak_dynamic_indices", ()), ANY) | strict | unbacked


def _each(index: Any) -> list[int]:
    return [int(dim) for dim in index] if isinstance(index, (list, tuple, set)) else [int(index)]


def _add(tensor: torch.Tensor, name: str, dims: list[int]) -> None:
    for dim in dims:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"dimension {dim} of a tensor with {tensor.dim()} dimensions")
    known = {dim % tensor.dim() for dim in dims}
    tensor.__dict__.setdefault(name, set()).update(known)


def mark_dynamic(t: torch.Tensor, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The size of `t` in this dimension (or these) varies, within bounds: it is a symbol from the first compilation."""
    dims = _each(index)
    _add(t, "_dynamo_dynamic_indices", dims)
    if min is not None or max is not None:
        rows = {DimRange(dim % t.dim(), min, max) for dim in dims}
        t.__dict__.setdefault("_dynamo_dynamic_range", set()).update(rows)


def maybe_mark_dynamic(t: torch.Tensor, index: Any) -> None:
    """As `mark_dynamic`, as a hint."""
    _add(t, "_dynamo_weak_dynamic_indices", _each(index))


def mark_unbacked(t: torch.Tensor, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The size of `t` in this dimension (or these) varies, and may be 0 or 1: the same code serves all sizes.

    Python cannot branch on such a size; that is a break.
    """
    dims = _each(index)
    _add(t, "_dynamo_unbacked_indices", dims)
    if min is not None or max is not None:
        bounds = {dim % t.dim(): (min, max) for dim in dims}
        t.__dict__.setdefault("_dynamo_unbacked_bounds", {}).update(bounds)


def mark_static(t: torch.Tensor, index: Any = None) -> None:
    """The size of `t` in this dimension (or these, or all) is a constant, whatever was seen to change."""
    _add(t, "_dynamo_static_indices", list(range(t.dim())) if index is None else _each(index))
