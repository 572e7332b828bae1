"""State of the interpreter and the process: read under a guard that reads it again; unchanged by setting what it is."""

from __future__ import annotations

import codecs
import gc
import operator
import os
import sys
import threading
from typing import Any

from stator._frames import native as run_native
from stator.frame import Frame
from stator.guards import path as paths
from stator.native.callers import call_python, decided
from stator.native.host import Host
from stator.native.rows import standin

READERS = (
    sys.getrecursionlimit, sys.gettrace, sys.getprofile, sys.get_int_max_str_digits, sys.getswitchinterval,
    sys.getdlopenflags, gc.get_threshold, gc.get_debug, os.getpid, os.getcwd, threading.get_ident,
    threading.get_native_id,
)  # fmt: skip
SETTERS = {sys.settrace: sys.gettrace, sys.setprofile: sys.getprofile}


@standin(*READERS)
def stand_reader(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The value now, guarded: the entry is good for the same state only."""
    if args or kwargs:
        return call_python(host, f, function, args, kwargs)
    return host.enter(run_native(function), paths.const(function).part("()", operator.call))


@standin(codecs.lookup, codecs.lookup_error)
def stand_codec(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What the registry of codecs holds: an object from outside, which the program may change."""
    found = call_python(host, f, function, args, kwargs)
    if len(args) != 1 or type(args[0]) is not str:
        raise host.refuse("native-unknown", f"call of codecs.{function.__name__}", function=function.__name__)
    return host.enter(found, paths.const(sys.intern(args[0])).part(function.__name__, function))


@standin(*SETTERS)
def stand_setter(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Switching off what is off already."""
    if args == [None] and not kwargs and stand_reader(host, f, SETTERS[function], [], None) is None:
        return None
    return decided(host, f, function, args, kwargs)
