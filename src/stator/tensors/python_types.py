"""Classes that stand for dtypes: `torch.zeros(3, dtype=bool)`, `x.to(float)`, `x.type(torch.FloatTensor)`."""

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
LEGACY: dict[Any, torch.dtype] = {
    kind: kind.dtype for kind in torch._tensor_classes if not kind.is_cuda and not kind.is_sparse
}


def as_dtypes(func: Any, values: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments with dtypes for such classes: those of torch for `Tensor.type`, those of Python for all others."""
    table = LEGACY if func is torch.Tensor.type else DTYPES
    return tuple(table.get(value, value) if type(value) in CLASSES else value for value in values)


CLASSES = frozenset({type, type(torch.FloatTensor)})
