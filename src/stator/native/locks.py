"""Outside locks: not touched while capturing; the entry function holds each one that the program took."""

from __future__ import annotations

import threading
from typing import Any

from stator.frame import Frame
from stator.native.host import OUTSIDE_METHODS, Host


def take(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    host.locks.setdefault(id(function.__self__), function.__self__)
    return True


def give(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return None


for _kind in (type(threading.Lock()), type(threading.RLock())):
    OUTSIDE_METHODS.update({(id(_kind), name): take for name in ("acquire", "__enter__", "acquire_lock")})
    OUTSIDE_METHODS.update({(id(_kind), name): give for name in ("release", "__exit__", "release_lock")})
