"""Outside locks: not touched while capturing; the entry function holds each one that the program took."""

from __future__ import annotations

import functools
import threading
from typing import Any

from stator.frame import Frame
from stator.native.host import Host
from stator.native.rows import OUTSIDE_METHODS
from stator.native.told_addresses import STATES, refuse_state

LOCK_TYPES = frozenset({type(threading.Lock()), type(threading.RLock())})
_RLOCK = type(threading.RLock())
# A lock that only spares a calculation: what it protects is the same whoever calculates it.
_SPARING = functools.cached_property.__get__.__code__


class Together:
    """Holds several locks at once, which the program may have held one after the other: waits for one holding none."""

    def __init__(self, *locks: Any) -> None:
        self.locks = locks

    def __enter__(self) -> None:
        first = 0
        while True:
            taken = [self.locks[first]]
            self.locks[first].acquire()
            for at, lock in enumerate(self.locks):
                if at != first and not lock.acquire(blocking=False):
                    first = at
                    break
                if at != first:
                    taken.append(lock)
            else:
                return
            for lock in taken:
                lock.release()

    def __exit__(self, *exc: object) -> None:
        for lock in self.locks:
            lock.release()


def take(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    lock = function.__self__
    held = host.held.get(id(lock), 0)
    if args or kwargs or host.locks_break or (held and type(lock) is not _RLOCK):
        raise host.refuse("thread", function=function.__qualname__)
    if f.info.code is not _SPARING and host.section is None:
        host.section = id(lock), held
        host.begin_section()
    host.locks.setdefault(id(lock), lock)
    host.held[id(lock)] = held + 1
    return True


def give(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    lock = function.__self__
    if not host.held.get(id(lock)):  # taken before the capture began, or not at all
        raise host.refuse("thread", function=function.__qualname__)
    host.held[id(lock)] -= 1
    if host.section == (id(lock), host.held[id(lock)]):
        host.section = None
        host.end_section()


for _kind in LOCK_TYPES:
    STATES[_kind] = refuse_state
    OUTSIDE_METHODS.update({(id(_kind), name): take for name in ("acquire", "__enter__", "acquire_lock")})
    OUTSIDE_METHODS.update({(id(_kind), name): give for name in ("release", "__exit__", "release_lock")})
