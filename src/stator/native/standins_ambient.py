"""Stand-ins for what reads or changes ambient state: context variables."""

from __future__ import annotations

import contextvars
from typing import Any

from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import OUTSIDE_METHODS, standin


def get_variable(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`var.get()`: in the capture's own copy of the context."""
    var = function.__self__
    host.ambient.enter_variable(host, var)
    if not args and not kwargs and id(var) in host.ambient.defaults:
        found = call_python(host, f, function, [UNSET], None)
        return host.ambient.defaults[id(var)] if found is UNSET else found
    return call_python(host, f, function, args, kwargs)


def set_variable(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    host.ambient.enter_variable(host, function.__self__)
    return call_python(host, f, function, args, kwargs)


def reset_variable(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Tokens made before the capture belong to another context than the capture's copy."""
    if any(id(arg) in host.records for arg in args):
        raise host.refuse(
            "native-outside-object", "ContextVar.reset with an outside token", function="ContextVar.reset"
        )
    return set_variable(host, f, function, args, kwargs)


@standin(contextvars.copy_context)
def stand_copy_context(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A context holds the values of all variables, known to the capture or not."""
    raise host.refuse("native-impure", "call of contextvars.copy_context", function="copy_context")


UNSET = object()
for _name, _row in {"get": get_variable, "set": set_variable, "reset": reset_variable}.items():
    OUTSIDE_METHODS[id(contextvars.ContextVar), _name] = _row
