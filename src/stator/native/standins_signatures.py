"""`inspect.signature` of a Python function: CPython makes it of a function that has what came through the door."""

from __future__ import annotations

import inspect
from types import CellType, FunctionType, MethodType
from typing import Any

from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin
from stator.native.standins import attribute_or

ELSEWHERE = ("__wrapped__", "__signature__", "_partialmethod")  # attributes that say where the signature is found
LOOKED_AT = ("__defaults__", "__kwdefaults__", "__annotations__")


@standin(inspect.signature)
def stand_signature(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    asked = args[0] if len(args) == 1 and not kwargs else None
    inner = asked.__func__ if type(asked) is MethodType else asked
    if type(inner) is FunctionType and all(attribute_or(host, f, inner, name, None) is None for name in ELSEWHERE):
        twin = twin_of(host, f, inner)
        try:
            return inspect.signature(twin if inner is asked else MethodType(twin, twin))
        except (TypeError, ValueError):  # the program's: it is raised below
            pass
    return call_python(host, f, function, args, kwargs)


def twin_of(host: Host, f: Frame, function: Any) -> FunctionType:
    """A function with the same parameters."""
    code = host.load_attr(f, function, "__code__")
    twin = FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars))
    for name in LOOKED_AT:
        setattr(twin, name, host.settled(host.load_attr(f, function, name)))
    return twin
