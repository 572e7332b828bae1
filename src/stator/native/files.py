"""Files: one that is only read may be read while capturing; its identity, size and time of change are guarded."""

from __future__ import annotations

import io
import operator
import os
import stat
import sys
import weakref
from typing import Any

from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.check import EQ, show
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin

FACTS = ("st_ino", "st_dev", "st_size", "st_mtime_ns")
READERS = {name: operator.attrgetter(name) for name in FACTS}
NAMES = ("file", "mode", "buffering", "encoding", "errors", "newline", "closefd", "opener")


@standin(io.open)
def stand_open(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if host.displaying:  # C shows source lines of a traceback
        return call_python(host, f, function, args, kwargs)
    given = dict(zip(NAMES, args, strict=False)) | (kwargs or {})
    file, mode = given.get("file"), given.get("mode", "r")
    reads = type(file) is str and type(mode) is str and set(mode) <= set("rbtU")
    if not reads or given.get("opener") is not None:
        raise host.refuse("native-effect", f"open({show(file)}, {show(mode)})", function="open")
    if not guard_file(host, str(file)):
        raise host.refuse("native-impure", f"open({show(file)}): no regular file, or one that changes", function="open")
    opened = call_python(host, f, function, args, kwargs)
    host.opened.append(weakref.ref(opened))
    return opened


def guard_file(host: Host, name: str) -> bool:
    """Guard that the file is the one it is now, unchanged; False if it is none that could be, or changes."""
    try:
        now = os.stat(name)
    except (OSError, ValueError):
        return False
    if not stat.S_ISREG(now.st_mode) or any(host.was_other(fact_of(name, fact)) for fact in FACTS):
        return False
    if not os.path.isabs(name):
        guard_facts(host, os.curdir, os.stat(os.curdir), ("st_ino", "st_dev"))
    guard_facts(host, name, now, FACTS)
    return True


def guard_facts(host: Host, name: str, now: os.stat_result, facts: tuple[str, ...]) -> None:
    for fact in facts:
        host.guards.add(fact_of(name, fact), EQ, getattr(now, fact), host.origin())


def fact_of(name: str, fact: str) -> paths.Path:
    """The same path each time, though the program makes another string each time."""
    return paths.const(sys.intern(name)).part("stat", os.stat).part(fact, READERS[fact])
