"""The process environment and the breakpoint hook."""

from __future__ import annotations

import os
import sys
from typing import Any

from stator._frames import UNBOUND
from stator.frame import Frame, throw
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin
from stator.native.standins import attribute_or


@standin(os.putenv, os.unsetenv)
def stand_environment(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Set after the graph ran; nothing that runs while capturing reads the process environment in C."""
    texts = all(type(arg) in (str, bytes) for arg in args)
    if kwargs or not texts or len(args) != (2 if function is os.putenv else 1) or invalid(*map(os.fsencode, args)):
        return call_python(host, f, function, args, kwargs)  # raises, and changes nothing
    host.defer(function, args, None)
    return None


def invalid(name: bytes, value: bytes = b"") -> bool:
    return not name or b"=" in name or b"\0" in name + value


@standin(breakpoint)
def stand_breakpoint(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    hook = attribute_or(host, f, host.enter_const(sys), "breakpointhook", UNBOUND)
    if hook is UNBOUND:
        throw(f, RuntimeError("lost sys.breakpointhook"))
    return host.call(f, hook, args, kwargs)


@standin(sys.__breakpointhook__)
def stand_breakpoint_hook(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Calls what PYTHONBREAKPOINT names; the environment is read as the program sees it."""
    environment = host.load_attr(f, host.enter_const(os), "environ")
    named = host.call(f, host.load_attr(f, environment, "get"), ["PYTHONBREAKPOINT"], None)
    if named == "0":
        return None
    module, _, name = (named or "pdb.set_trace").rpartition(".")
    if not name:
        raise host.refuse("native-effect", f"PYTHONBREAKPOINT={named}", function="breakpoint")
    imported = host.enter_const(host.imported(f, module or "builtins", [name], 0))
    found = attribute_or(host, f, imported, name, UNBOUND)
    if found is UNBOUND:
        raise host.refuse("native-effect", f"PYTHONBREAKPOINT={named}", function="breakpoint")
    return host.call(f, found, args, kwargs)
