"""Attribute access, by kind of the object."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

from stator import _frames
from stator.frame import Frame, native
from stator.guards.check import IS
from stator.world import attributes, writing
from stator.world.door import by_identity
from stator.world.hollow_namespaces import as_dict
from stator.world.thread_local import read_thread_local, write_thread_local
from stator.world.world import World


def reader_of(cls: type) -> attributes.Reader:
    return READERS.get(id(cls)) or _family(cls)[0]


def writer_of(cls: type) -> Any:
    return WRITERS.get(id(cls)) or _family(cls)[1]


def _family(cls: type) -> tuple[attributes.Reader, Any]:
    """How to read and write attributes of classes that have no row of their own."""
    if issubclass(cls, types.ModuleType):
        hooks = {name for name in HOOKS if type(_frames.type_lookup(cls, name)) is types.FunctionType}
        if cls.__module__.startswith("torch."):  # settings of torch, which its own code looks after
            hooks = set()
        return (
            read_hooked_module if "__getattribute__" in hooks else attributes.read_module,
            write_hooked_module if hooks - {"__getattribute__"} else writing.write_module,
        )
    if issubclass(cls, type):
        return attributes.read_class, writing.write_class
    if _frames.is_heap_type(cls):
        return attributes.read_instance, writing.write_instance
    return attributes.read_native, write_c_object


HOOKS = ("__getattribute__", "__setattr__", "__delattr__")


def read_hooked_module(host: World, f: Frame, module: Any, name: str) -> Any:
    """A module whose class has methods of the program for it: a break, unless the program made it."""
    if id(module) in host.records:
        raise host.refuse(
            "outside-type", f"attribute {name!r} of a {type(module).__name__}", type=type(module).__name__
        )
    return native(f, attributes.RAW_READ, module, name)


def write_hooked_module(host: World, f: Frame, module: Any, name: str, value: Any) -> None:
    if id(module) in host.records:
        raise host.refuse("outside-write", f"attribute {name!r} of a {type(module).__name__}", target=name)
    writing.write_native(host, f, module, name, value)


def write_c_object(host: World, f: Frame, obj: Any, name: str, value: Any) -> None:
    record = host.records.get(id(obj))
    if record is not None and record.inner is record.obj:
        raise host.refuse("outside-write", f"attribute {name!r} of an outside {type(obj).__name__}", target=name)
    writing.write_native(host, f, obj, name, value)


def read_frame(host: Any, f: Frame, frame: Any, name: str) -> Any:
    """Attributes of frame objects: CPython's frames are brought in step first."""
    if name == "f_globals":
        namespace = host.namespace(frame.f_globals)
        return frame.f_globals if namespace is None else as_dict(namespace)
    if name != "f_locals":
        return attributes.read_native(host, f, frame, name)
    lent = host.lend_frames(f, sys.maxsize)
    try:
        return native(f, getattr, frame, name)
    finally:
        for one in lent:
            one.drop()


def read_traceback(host: Any, f: Frame, traceback: Any, name: str) -> Any:
    """An outside traceback is pinned once somebody looks into it."""
    record = host.records.get(id(traceback))
    if record is not None:
        host.guards.add(record.path, IS, traceback, host.origin())
    return attributes.read_native(host, f, traceback, name)


READERS: dict[int, attributes.Reader] = by_identity(
    {
        types.ModuleType: attributes.read_module,
        types.FunctionType: attributes.read_function,
        types.MethodType: attributes.read_bound_method,
        type: attributes.read_class,
        types.FrameType: read_frame,
        types.TracebackType: read_traceback,
        super: attributes.read_super,
        types.CellType: attributes.read_cell,
        threading.local: read_thread_local,
    }
)
WRITERS: dict[int, Any] = by_identity(
    {
        types.ModuleType: writing.write_module,
        types.FunctionType: writing.write_function,
        type: writing.write_class,
        types.CellType: writing.write_cell,
        threading.local: write_thread_local,
    }
)
