"""`np.zeros((n, 8))`, `np.arange(n)`: new arrays of a size that varies are made by the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stator.frame import Frame
from stator.shapes.scalar import TracedInt, from_data
from stator.tensors.array_calls import DTYPES, np
from stator.tensors.arrays import TracedArray

NUMBER_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


def make(host: Any, f: Frame, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The array, or None where this is another call."""
    maker = MAKERS.get(name)
    if maker is None or not any(map(varies, (*args, *kwargs.values()))):
        return None
    try:
        function, given, dtype = maker(*args, **kwargs)
    except (TypeError, KeyError):  # arguments that are not known here
        return None
    made = host.record(f, function, given, {"dtype": dtype, "device": CPU})
    return TracedArray(made, np.ndarray)


def varies(value: Any) -> bool:
    """Whether it is a size that varies, or several sizes with such a one."""
    if type(value) in (tuple, list, torch.Size):
        return any(map(varies, value))
    return type(value) is TracedInt and not from_data(value)


def _filled(function: Any) -> Callable[..., Any]:
    return lambda shape, dtype=float: (function, [_shape(shape)], _dtype(dtype))


def _full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    return torch.full, [_shape(shape), fill_value], _number(fill_value, dtype)


def _range(*bounds: Any, dtype: Any = None) -> Any:
    if not 1 <= len(bounds) <= 3 or any(type(bound) not in (int, TracedInt) for bound in bounds):
        raise TypeError
    return torch.arange, list(bounds), torch.int64 if dtype is None else _dtype(dtype)


def _eye(size: Any, dtype: Any = float) -> Any:
    if type(size) is not TracedInt:
        raise TypeError
    return torch.eye, [size], _dtype(dtype)


def _shape(shape: Any) -> list[Any]:
    sizes = list(shape) if type(shape) in (tuple, list, torch.Size) else [shape]
    if any(type(size) not in (int, TracedInt) or (type(size) is int and size < 0) for size in sizes):
        raise TypeError
    return sizes


def _dtype(dtype: Any) -> torch.dtype:
    return DTYPES[np.dtype(dtype)]


def _number(value: Any, dtype: Any) -> torch.dtype:
    return NUMBER_TYPES[type(value)] if dtype is None else _dtype(dtype)


CPU = torch.device("cpu")
MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": _filled(torch.zeros),
    "ones": _filled(torch.ones),
    "full": _full,
    "arange": _range,
    "eye": _eye,
    "identity": _eye,
}
