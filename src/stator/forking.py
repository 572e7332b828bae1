"""What is left after a fork: the child has one thread, and what the others held or had begun stays behind.

A lock that another thread held would be held for ever, and what is counted over all threads would count those.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from stator.weak_values import WeakValues

_locks: WeakValues[int, Any] = WeakValues()  # by address
_forgetting: list[Callable[[], None]] = []


def lock() -> Any:
    """A reentrant lock that is free in a child, unless the thread that forked holds it."""
    made: Any = threading.RLock()
    _locks[id(made)] = made
    return made


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Calls a function in each child, which forgets the other threads."""
    _forgetting.append(function)
    return function


def _begin_child() -> None:
    for held in _locks:
        if not held._is_owned():
            held._at_fork_reinit()
    for function in _forgetting:
        function()


os.register_at_fork(after_in_child=_begin_child)
