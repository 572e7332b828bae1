"""Outside locks: not touched while capturing; the entry function holds each one that the program took."""

from __future__ import annotations

import threading
from typing import Any

from stator.frame import Frame
from stator.native.host import Host
from stator.native.rows import OUTSIDE_METHODS

LOCK_TYPES = frozenset({type(threading.Lock()), type(threading.RLock())})
_RLOCK = type(threading.RLock())


def take(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    lock = function.__self__
    held = host.held.get(id(lock), 0)
    if args or kwargs or host.locks_break or (held and type(lock) is not _RLOCK):
        raise host.refuse("thread", function=function.__qualname__)
    host.locks.setdefault(id(lock), lock)
    host.held[id(lock)] = held + 1
    return True


def give(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    lock = function.__self__
    if not host.held.get(id(lock)):  # taken before the capture began, or not at all
        raise host.refuse("thread", function=function.__qualname__)
    host.held[id(lock)] -= 1


for _kind in LOCK_TYPES:
    OUTSIDE_METHODS.update({(id(_kind), name): take for name in ("acquire", "__enter__", "acquire_lock")})
    OUTSIDE_METHODS.update({(id(_kind), name): give for name in ("release", "__exit__", "release_lock")})
