"""Classes of Python's numbers that stand for dtypes: `torch.zeros(3, dtype=bool)`, `x.to(float)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

DTYPES: dict[Any, torch.dtype] = {
    float: torch.float64,
    int: torch.int64,
    bool: torch.bool,
    complex: torch.complex128,
}
_NOT_TAKEN = frozenset({torch.Tensor.type})  # takes names of types, and raises for these


def as_dtypes(func: Any, values: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments with dtypes for such classes."""
    if func in _NOT_TAKEN:
        return tuple(values)
    return tuple(DTYPES.get(value, value) if type(value) is type else value for value in values)
