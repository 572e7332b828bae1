"""What the program does while it holds a lock from outside: whether that lock protects something of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from stator.guards.check import (
    EQ,
    HAS_ELEMENT,
    KEYS,
    LEN,
    NO_ELEMENT,
    NO_KEY,
    NOT_EMPTY,
    PRESENT,
    RELATION,
    TENSOR,
    TYPE_IS,
)
from stator.runtime.footprint import Footprint

# Checks of what a program reads as data, not of the functions, classes and modules on the way.
DATA = frozenset({EQ, LEN, KEYS, NO_KEY, NOT_EMPTY, HAS_ELEMENT, NO_ELEMENT, PRESENT, RELATION, TENSOR})
NUMBERS = (int, float)


class Section(NamedTuple):
    """The guards and what everything held when the program took the lock."""

    guards: int
    before: Footprint


def begin(host: Any) -> Section:
    return Section(len(host.guards), Footprint(host, []))


def protects(host: Any, section: Section) -> bool:
    """Whether the program has read or written anything from outside since then."""
    section.before.writes[:2] = len(host.effects), len(host.locks)  # what it prints is printed under the lock
    rows = list(host.guards.rows())[section.guards :]
    return any(is_data(path, check, key) for path, check, key, _ in rows) or section.before.changed()


def is_data(path: Any, check: Any, key: Any) -> bool:
    """Whether a guard is about data; what a root tells is known without a lock, so are the names of modules."""
    if path is not None and path.parent is None:
        return False
    return check in DATA or (check is TYPE_IS and key in NUMBERS)
