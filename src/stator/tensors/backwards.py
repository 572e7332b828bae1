"""Arrays of numpy that run backwards along some axes: torch has no tensor with such strides.

What stands for one holds the same memory in ascending order. A view of it is recorded as a view in that order; what
reads it is given the array as numpy has it, when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

from stator.tensors.array_calls import function_of, np

Axes = tuple[int, ...]


class View(NamedTuple):
    """A call that gives the memory of a result, and the axes along which the result runs backwards."""

    axes: Axes
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def descending(array: Any) -> Axes:
    """The axes along which addresses go down."""
    return tuple(axis for axis, step in enumerate(array.strides) if step < 0)


def turned(array: Any, axes: Axes) -> Any:
    """The array, the other way round along some axes."""
    return array[tuple(BACK if axis in axes else ALL for axis in range(array.ndim))] if axes else array


BACK, ALL = slice(None, None, -1), slice(None)


def find_view(base: Any, axes: Axes, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> View | None:
    """The call on the memory in ascending order, `base`, whose result turned is that of this call on the array."""

    def call(name: str, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function_of(name, np)(first, *args, **kwargs)

    array = turned(base, axes)
    made = _attempt(partial(call, name, array, args, kwargs))
    if type(made) is not np.ndarray or made is array or not np.may_share_memory(made, base):
        return None
    found = descending(made)
    wanted = _place(turned(made, found))
    for view in _candidates(base.shape, axes, View(found, name, args, kwargs)):
        if _place(_attempt(partial(call, view.name, base, view.args, view.kwargs))) == wanted:
            return view
    return None


def _attempt(call: Callable[[], Any]) -> Any:
    """The result; what fails, fails again where it is recorded."""
    try:
        return call()
    except Exception:
        return None


def _place(array: Any) -> Any:
    """Where the elements of an array are."""
    return None if array is None else (array.__array_interface__["data"][0], array.shape, array.strides)


def _candidates(sizes: tuple[int, ...], axes: Axes, asked: View) -> Iterator[View]:
    """The call as it is, or what leads to the same elements in ascending order."""
    if asked.name != "operator:getitem":
        yield asked
    elif (index := ascending(asked.args[0], sizes, axes)) is not None:
        yield asked._replace(args=(index,))
    for order in permutations(range(len(sizes))):  # `flip`, `rot90`
        yield View(asked.axes, "method:transpose", order, {})


def ascending(index: Any, sizes: tuple[int, ...], axes: Axes) -> tuple[Any, ...] | None:
    """The index of the same elements in ascending order; None if it is not made of numbers and slices."""
    parts = list(index) if type(index) is tuple else [index]
    if not all(type(part) in (int, slice, type(None), type(...)) for part in parts):
        return None
    if ... in parts:
        at = parts.index(...)
        parts[at : at + 1] = [ALL] * (len(sizes) - sum(part is not None for part in parts) + 1)
    made: list[Any] = []
    axis = 0
    for part in parts:
        if part is None:
            made.append(None)
            continue
        if axis == len(sizes):
            return None
        taken = _taken(part, sizes[axis], axis in axes)
        if taken is None:
            return None
        made.append(taken)
        axis += 1
    return tuple(made)


def _taken(part: Any, size: int, backwards: bool) -> int | slice | None:
    places = range(size)[::-1] if backwards else range(size)
    try:
        chosen = places[part]
    except (IndexError, TypeError):  # which numpy says in its own words
        return None
    if isinstance(chosen, int):
        return chosen
    if chosen.step < 0:
        chosen = chosen[::-1]
    return slice(chosen.start, chosen.stop, chosen.step) if chosen else slice(0, 0)
