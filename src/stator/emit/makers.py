"""The few functions that emitted code calls, for objects no single expression of the standard library makes."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

from stator import _entry


def advanced(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    """The iterator, moved on by so many steps."""
    next(itertools.islice(iterator, steps, steps), None)
    return iterator


class Nothing:
    """A sequence without items, known only by its `__getitem__`."""

    def __getitem__(self, index: int) -> Any:
        raise IndexError


def ended_calls() -> Iterator[Any]:
    """An `iter(function, sentinel)` that has met its sentinel."""
    iterator = iter(int, 0)
    next(iterator, None)
    return iterator


def ended_items() -> Iterator[Any]:
    """An exhausted iterator over an object with `__getitem__`."""
    iterator: Iterator[Any] = iter(Nothing())
    next(iterator, None)
    return iterator


def dead_reference() -> weakref.ref[Any]:
    """A weak reference whose object is gone."""
    return weakref.ref(set())


def replica(original: set[Any]) -> set[Any]:
    """A set with the same elements at the same places: in the same order, also after later changes."""
    made: set[Any] = set()
    _entry.set_like(made, original)
    return made
