"""The few functions that emitted code calls, for objects no single expression of the standard library makes."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict, deque
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


class Hashed:
    """Something with a given hash."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


def dead_reference(number: int | None) -> weakref.ref[Any]:
    """A weak reference whose object is gone, and which remembers its hash if there is one."""
    obj = Hashed(number or 0)
    reference = weakref.ref(obj)
    if number is not None:
        hash(reference)
    return reference


def replica(original: set[Any]) -> set[Any]:
    """A set with the same elements at the same places: in the same order, also after later changes."""
    made: set[Any] = set()
    _entry.set_like(made, original)
    return made


def frozen_like(cls: type, template: set[Any], items: list[Any]) -> frozenset[Any]:
    """A frozenset of this class with these elements at the places that the template's have."""
    made: frozenset[Any] = frozenset.__new__(cls, (None,))  # one that nobody else has
    _entry.set_like(made, template, items)
    return made


def stir_ordered(mapping: OrderedDict[Any, Any]) -> None:
    """A key comes and goes."""
    key = object()
    OrderedDict.__setitem__(mapping, key, None)
    OrderedDict.__delitem__(mapping, key)


def stir_deque(elements: deque[Any]) -> None:
    """Elements leave their places and come back; one that is full has no room for another."""
    if deque.__len__(elements) > 1:
        deque.rotate(elements)
        deque.rotate(elements, -1)
        return
    was_empty = deque.__len__(elements) == 0
    deque.append(elements, None if was_empty else deque.pop(elements))
    if was_empty and deque.__len__(elements):
        deque.pop(elements)
