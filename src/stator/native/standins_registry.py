"""Stand-ins for registries that C keeps: abstract base classes."""

from __future__ import annotations

import _abc
import functools
from typing import Any

from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.check import IS
from stator.native.host import Host, call_python, standin


@standin(_abc._abc_register, _abc._reset_registry, _abc._reset_caches)
def stand_register(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`cls.register(subclass)`: the registry of an outside class is outside."""
    if args and isinstance(args[0], type) and not host.is_inside_type(args[0]):
        name = args[0].__qualname__
        raise host.refuse("outside-write", f"registration with class {name}", target=f"the registry of {name}")
    return call_python(host, f, function, args, kwargs)


@standin(_abc._abc_subclasscheck)
def stand_subclasscheck(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    result = call_python(host, f, function, args, kwargs)
    if len(args) == 2:
        guard_registered(host, args[0], args[1])
    return result


@standin(_abc._abc_instancecheck)
def stand_instancecheck(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    result = call_python(host, f, function, args, kwargs)
    if len(args) == 2:
        guard_registered(host, args[0], host.class_of(args[1]))
    return result


def guard_registered(host: Host, cls: Any, subclass: Any) -> None:
    """Who is registered with an outside class may change: the answer, which C has in its cache now, is guarded."""
    pair = (id(cls), id(subclass))
    if pair in host.registered or not isinstance(subclass, type):
        return
    if host.is_inside_type(cls) or host.is_inside_type(subclass):
        return
    host.registered.add(pair)
    check = functools.partial(_abc._abc_subclasscheck, cls)
    path = paths.const(subclass).part(f"issubclass of {cls.__name__}", check)
    host.guards.add(path, IS, check(subclass), host.origin())
