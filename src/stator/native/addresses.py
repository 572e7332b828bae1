"""Where objects lie: `id`, `is`, hashes by identity, of outside objects and of those that the program makes."""

from __future__ import annotations

import operator
import types
from typing import Any

from stator import _frames
from stator.frame import Frame
from stator.guards.check import IS
from stator.guards.constant import is_plain
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin
from stator.world.constants import CONSTANT_TYPES
from stator.world.keys import BY_ID
from stator.world.lazy import Lazy

# Modules that ask for addresses of containers and tensors only to know them again, and those that do of instances.
KEEPS_ADDRESSES = frozenset({"copy", "reprlib", "torch"})
INSTANCES_TOO = frozenset({"copy", "reprlib"})


@standin(id)
def stand_id(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return address(host, f, args[0], function)
    return call_python(host, f, function, args, kwargs)


@standin(operator.is_, operator.is_not)
def stand_is(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 2 or kwargs:
        return call_python(host, f, function, args, kwargs)
    return host.same(*args) ^ (function is operator.is_not)


@standin(hash)
def stand_hash(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        hashed = _frames.type_lookup(type(args[0]), "__hash__")
        if hashed is object.__hash__ or hashed in BY_ID:
            address(host, f, args[0], function)
        elif not host.hashes_vary and hashed in (tuple.__hash__, frozenset.__hash__):
            host.hashes_vary = varies(args[0])
    return call_python(host, f, function, args, kwargs)


@standin(object.__hash__)
def stand_object_hash(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        address(host, f, args[0], function)
    return call_python(host, f, function, args, kwargs)


def varies(obj: Any) -> bool:
    """Whether the hash follows from where objects lie; what code of the user says is seen when it runs."""
    if is_plain(obj):
        return False
    hashed = _frames.type_lookup(type(obj), "__hash__")
    for kind in (tuple, frozenset):
        if hashed is kind.__hash__:
            return any(map(varies, kind.__iter__(obj)))
    return type(hashed) is not types.FunctionType or hashed in BY_ID


def address(host: Host, f: Frame, obj: Any, function: Any) -> int:
    """Where the outside object lies that this one is or stands for: a value that only this object has.

    Objects that the program made lie elsewhere when the entry function runs: such a number must not come out.
    """
    host.ask_identity(obj)
    record = host.records.get(id(obj))
    module = f.globals.get("__name__", "")
    kept = module.partition(".")[0] in KEEPS_ADDRESSES and not has_outside_memo(host, f)
    if record is None:
        if type(obj) not in CONSTANT_TYPES and (not kept or module in INSTANCES_TOO):
            if host.addresses_break:
                raise host.refuse("cannot-rebuild", "the address of an object that the program made", type="int")
            (host.noted_addresses if kept else host.addresses).add(id(obj))
        return id(obj)
    if kept and not host.addresses_break and (record.inner is not record.obj or module in INSTANCES_TOO):
        host.addresses_outside[id(record.obj)] = record.path
    else:
        if (record.path, "identity", 0) in host.varying:
            kind = type(record.obj).__name__
            detail = f"the address of a {kind} that is another one on every call"
            raise host.refuse("native-outside-object", detail, function=function.__name__)
        host.guards.add(record.path, IS, record.obj, host.origin())
    return id(record.obj)


def has_outside_memo(host: Host, f: Frame) -> bool:
    """Whether a copy has noted addresses before the capture began, and goes on to do so."""
    slots = f.info.slots
    memo = f.locals[slots.index("memo")] if "memo" in slots else None
    return type(memo) is Lazy or id(memo) in host.hollow or id(memo) in host.records


def pin_identity(host: Host, obj: Any) -> None:
    record = host.records.get(id(obj))
    if record is not None and record.inner is record.obj:
        host.guards.add(record.path, IS, record.obj, host.origin())


class Address:
    """Stands among types of which no object may be made before a break for addresses of such objects."""
