"""Tables that do not keep their values alive."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class WeakValues(Generic[Key, Value]):
    """By key, the values that others still hold.

    Unlike `weakref.WeakValueDictionary`, nothing in Python runs when a value dies: a KeyboardInterrupt that comes in a
    callback is lost.
    """

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[Key, weakref.ref[Value]] = {}

    def __setitem__(self, key: Key, value: Value) -> None:
        self._references[key] = weakref.ref(value, partial(self._references.pop, key))

    def get(self, key: Key) -> Value | None:
        reference = self._references.get(key)
        return None if reference is None else reference()

    def __iter__(self) -> Iterator[Value]:
        """Those that live now; others may be added meanwhile."""
        for reference in list(self._references.values()):
            value = reference()
            if value is not None:
                yield value

    def __len__(self) -> int:
        return len(self._references)

    def clear(self) -> None:
        self._references.clear()
