"""The few functions that emitted code calls, for objects no single expression of the standard library makes."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any


def advanced(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    """The iterator, moved on by so many steps."""
    next(itertools.islice(iterator, steps, steps), None)
    return iterator


def dead_reference() -> weakref.ref[Any]:
    """A weak reference whose object is gone."""
    return weakref.ref(set())
