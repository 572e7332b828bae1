"""Weak references made during capture: their callbacks belong to the captured program."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from stator.frame import Frame
from stator.native.attribute_rows import READERS
from stator.native.callers import CALLERS, call_c_object, call_python
from stator.native.held import check_referent, entered
from stator.native.host import Host
from stator.native.rows import standin
from stator.world import attributes
from stator.world.callbacks import Observed


@standin(weakref.ref, weakref.proxy, weakref.ref.__new__)
def stand_reference(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """ref(obj, callback), proxy(obj, callback), ref.__new__(cls, obj, callback)."""
    index = 2 if function is weakref.ref.__new__ else 1
    if len(args) >= index:
        host.ask_identity(args[index - 1])
    if len(args) >= index and id(args[index - 1]) not in host.records:
        host.refers_weakly = True
    if len(args) > index and args[index] is not None:
        if id(args[index - 1]) in host.records:  # those that the program made die when it lets go of them
            host.mourned[id(args[index - 1])] = args[index - 1]
        args = [*args[:index], Observed(host, args[index]), *args[index + 1 :]]
    return call_python(host, f, function, args, kwargs)


def call_reference(host: Host, f: Frame, obj: Any, args: list[Any], kwargs: Any) -> Any:
    check_referent(host, f, obj)
    return entered(host, obj, call_c_object(host, f, obj, args, kwargs))


def read_reference(host: Any, f: Frame, reference: Any, name: str) -> Any:
    """The program knows its own callback, not what observes it."""
    value = attributes.read_native(host, f, reference, name)
    return value.callback if type(value) is Observed else value


CALLERS[id(weakref.ref)] = call_reference
READERS[id(weakref.ref)] = read_reference


@standin(weakref.getweakrefcount)
def stand_count(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return call_python(host, f, function, args, kwargs) - (len(args) == 1 and is_lone(host, args[0]))


@standin(weakref.getweakrefs)
def stand_references(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    lone = len(args) == 1 and is_lone(host, args[0])
    found = call_python(host, f, function, args, kwargs)
    return found[1:] if lone else found


def is_lone(host: Host, obj: Any) -> bool:
    """Whether the capture, and nobody else, has the one reference that all share who want no callback."""
    if not host.is_inside_function(obj):
        return False
    known = host.inside_functions[id(obj)]
    held = [host.plain_functions.get(id(obj)), *host.callers.get(id(obj), ())]
    return sys.getrefcount(known) == 3 + 2 * sum(one is known for one in held)  # `known` itself, table, argument


@standin(weakref.ref.__call__)
def stand_call(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`ref.__call__(reference)`, and `super().__call__()` in a subclass."""
    known = len(args) == 1 and issubclass(type(args[0]), weakref.ref)
    if known:
        check_referent(host, f, args[0])
    made = call_python(host, f, function, args, kwargs)
    return entered(host, args[0], made) if known else made
