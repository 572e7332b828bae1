"""Stand-ins for what C keeps on classes: their attributes, and who is registered with abstract ones."""

from __future__ import annotations

import _abc
import abc
import functools
from typing import Any

from stator import _frames
from stator.frame import UNBOUND, Frame
from stator.guards import path as paths
from stator.guards.check import IS
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin
from stator.world.attributes import CLASS_PLAIN, read_plain_class


@standin(_abc._abc_register)
def stand_register(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`cls.register(subclass)`, also with an outside class: its registry holds what the program made only weakly.

    So it forgets the class of the capture together with it. That of the running program is registered anew.
    """
    if len(args) != 2 or kwargs or not isinstance(args[0], type) or host.is_inside_type(args[0]):
        return stand_reset(host, f, function, args, kwargs)
    if not host.is_inside_type(args[1]) or asks_subclasses(type(args[1])):
        return stand_reset(host, f, function, args, kwargs)
    made = call_python(host, f, function, args, kwargs)
    host.defer(registered, args, None)
    return made


def asks_subclasses(meta: type) -> bool:
    """Whether code of the program tells who is a subclass."""
    return _frames.type_lookup(meta, "__subclasscheck__") not in (type.__subclasscheck__, abc.ABCMeta.__subclasscheck__)


def registered(cls: Any, subclass: Any) -> None:
    """What the entry function does about it."""
    _abc._abc_register(cls, subclass)


@standin(_abc._reset_registry, _abc._reset_caches)
def stand_reset(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The registry of an outside class is outside."""
    if args and isinstance(args[0], type) and not host.is_inside_type(args[0]):
        name = args[0].__qualname__
        raise host.refuse("outside-write", f"registration with class {name}", target=f"the registry of {name}")
    return call_python(host, f, function, args, kwargs)


@standin(type.__setattr__, type.__delattr__)
def stand_class_write(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What a metaclass's own `__setattr__` ends in."""
    cls = args[0] if args else None
    whole = len(args) == (3 if function is type.__setattr__ else 2) and not kwargs and isinstance(args[1], str)
    if not whole or not isinstance(cls, type) or host.is_inside_type(cls) or not _frames.is_heap_type(cls):
        return call_python(host, f, function, args, kwargs)
    return host.write_class(f, cls, args[1], args[2] if function is type.__setattr__ else UNBOUND)


@standin(type.__getattribute__)
def stand_class_read(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What a metaclass's own `__getattribute__` ends in."""
    if len(args) != 2 or kwargs or not issubclass(type(args[0]), type) or type(args[1]) is not str:
        return call_python(host, f, function, args, kwargs)
    cls, name = args
    if name in CLASS_PLAIN or host.is_inside_type(cls) or not _frames.is_heap_type(cls):
        return call_python(host, f, function, args, kwargs)
    return read_plain_class(host, f, cls, name, function)


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
