"""Thread-local objects from outside: their attributes are those of this thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.frame import Frame, native, throw
from stator.guards.check import TYPE_IS
from stator.world.attributes import RAW_READ, absent
from stator.world.record import Namespace
from stator.world.writing import write_native

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


def enter_thread_local(world: World, obj: Any, path: Path) -> Any:
    """Subclasses may run code of theirs on the first access of a thread, so they stay outside."""
    if type(obj) is not threading.local:
        raise world.refuse("outside-type", f"thread-local {type(obj).__qualname__}", type=type(obj).__name__)
    world.guards.add(path, TYPE_IS, threading.local, world.origin())
    world.register(obj, path)
    return obj


def fields(world: World, obj: Any) -> Namespace | None:
    """The attributes in this thread; None for an object made inside."""
    record = world.records.get(id(obj))
    if record is None:
        return None
    real = threading.local.__getattribute__(obj, "__dict__")
    namespace = world.namespaces.get(id(real))
    if namespace is None:
        path = record.path.part("__dict__", vars)
        namespace = world.namespaces[id(real)] = Namespace(world, real, real, path, by_attribute=False)
    return namespace


def read_thread_local(world: World, f: Frame, obj: Any, name: str) -> Any:
    namespace = fields(world, obj)
    if namespace is None:
        return native(f, RAW_READ, obj, name)
    if name == "__dict__":
        return namespace.expose()
    if _frames.type_lookup(threading.local, name) is not UNBOUND:
        return native(f, RAW_READ, obj, name)
    value = namespace.get(name)
    return absent(f, obj, name) if value is UNBOUND else value


def write_thread_local(world: World, f: Frame, obj: Any, name: str, value: Any) -> None:
    namespace = fields(world, obj)
    if namespace is None or _frames.type_lookup(threading.local, name) is not UNBOUND:
        return write_native(world, f, obj, name, value)
    if value is UNBOUND and namespace.get(name) is UNBOUND:
        throw(f, AttributeError(name, name=name, obj=obj))
    namespace.set(name, value)
    return None
