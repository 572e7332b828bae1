"""`torch.arange` with floats among its bounds: how many numbers there are is a number of the program."""

from __future__ import annotations

import math
from typing import Any

import torch

from stator.shapes.floats import TracedFloat, whole
from stator.shapes.scalar import TracedInt
from stator.shapes.scalar_ops import OPS, Op, is_read, read

NUMBERS = frozenset({int, float, TracedInt, TracedFloat})
VARYING = frozenset({TracedInt, TracedFloat})
FLOATS = frozenset({float, TracedFloat})


def evenly_spaced(start: Any, end: Any, step: Any, count: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """On numbers the very call that the program makes; compilers see so many multiples of the step."""
    if type(count) is int and all(map(is_read, (start, end, step))):
        return torch.arange(read(start), read(end), read(step), dtype=dtype, device=device)
    places = torch.arange(count, dtype=torch.float64, device=device)
    return (start + places * step).to(dtype or torch.get_default_dtype())


OPS[evenly_spaced] = Op(
    ("start", "end", "step", "count", "dtype", "device"), frozenset({"start", "end", "step"}), evenly_spaced
)


def told(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> tuple[Any, ...] | None:
    """The arguments of `evenly_spaced` for those of `torch.arange`; None if they are not of this kind."""
    if end is None:
        start, end = 0, start
    kinds = {type(start), type(end), type(step)}
    if not kinds <= NUMBERS or kinds.isdisjoint(VARYING) or kinds.isdisjoint(FLOATS):
        return None
    if dtype is not None and not dtype.is_floating_point:
        return None
    if not bool(step > 0 if step != 0 else False):
        return None
    distance = (end - start) / step
    count = whole(math.ceil, distance) if type(distance) is TracedFloat else math.ceil(distance)
    return (start, end, step, count, dtype, device) if bool(count > 0) else None
