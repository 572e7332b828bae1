"""Calls of torch that read symbolic floats when the graph runs: for graphs that nobody traces.

The operation is the very call that the program makes. What comes out of it must be alike for all numbers: sizes, types
and memory of the results.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import torch

from stator.shapes import scalar_ops
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar_ops import is_read, read

Place = int | str  # of an argument: its number or its name
KINDS = (types.BuiltinFunctionType, types.MethodDescriptorType)

# Functions whose results have a size that a number decides, or that give their argument for some.
SHAPED = frozenset(
    {torch.arange, torch.range, torch.dropout, torch.feature_dropout, torch.alpha_dropout, torch.feature_alpha_dropout}
    | {torch.dropout_, torch.alpha_dropout_, torch.feature_dropout_, torch.feature_alpha_dropout_, torch.rrelu}
    | {getattr(torch._C._nn, name) for name in dir(torch._C._nn) if name.startswith(("upsample", "_upsample"))}
)
SIZED = frozenset(func for func in SHAPED if "upsample" in func.__name__)  # not where they are told the sizes, too


def read_late(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call with 0-d tensors for its numbers; None if it cannot be made later."""
    if type(func) not in KINDS or (func in SHAPED and not (func in SIZED and len(args) > 1 and args[1] is not None)):
        return None
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    places = tuple(place for place, value in given.items() if _holds_floats(value))
    if any(not _is_number(given[place]) for place in places):
        return None
    examples = tuple(_example(given[place]) for place in places)
    tensors = {place: _tensors(given[place]) for place in places}
    made = [tensors.get(i, arg) for i, arg in enumerate(args)]
    named = {name: tensors.get(name, arg) for name, arg in kwargs.items()}
    return _operation(func, places, _Examples(examples)), tuple(made), named


class _Examples(tuple[Any, ...]):
    """Numbers for which a call can be tried; all are the same to the table of operations."""

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Examples)


@functools.cache
def _operation(func: Any, places: tuple[Place, ...], examples: tuple[Any, ...]) -> Callable[..., Any]:
    tried = dict(zip(places, examples, strict=True))

    def op(*args: Any, **kwargs: Any) -> Any:
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        late = all(is_read(given[place]) for place in places)
        for place in places:
            given[place] = read(given[place]) if late else tried[place]
        return func(*(given[i] for i in range(len(args))), **{name: given[name] for name in kwargs})

    op.__name__ = op.__qualname__ = f"{func.__name__}_late"
    op.__module__ = scalar_ops.__name__  # whose functions are operations
    return op


def _holds_floats(value: Any) -> bool:
    kind = type(value)
    return kind is TracedFloat or (kind in (list, tuple) and any(map(_holds_floats, value)))


def _is_number(value: Any) -> bool:
    """A number, or a list of nothing but numbers."""
    if type(value) in (list, tuple):
        return all(map(_is_number, value))
    return type(value) in (int, float, TracedFloat)


def _example(value: Any) -> Any:
    if type(value) in (list, tuple):
        return [_example(item) for item in value]
    now = value.value if type(value) is TracedFloat else value
    return now if math.isfinite(now) else 0.5


def _tensors(value: Any) -> Any:
    if type(value) in (list, tuple):
        return [_tensors(item) for item in value]
    return value.tensor() if type(value) is TracedFloat else value
