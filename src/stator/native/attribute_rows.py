"""Attribute access, by kind of the object."""

from __future__ import annotations

import threading
import types
from typing import Any

from stator import _frames
from stator.frame import Frame, native
from stator.guards.check import IS
from stator.world import attributes
from stator.world.door import by_identity
from stator.world.thread_local import read_thread_local, write_thread_local
from stator.world.world import World


def reader_of(cls: type) -> attributes.Reader:
    found = READERS.get(id(cls))
    if found is None:
        if issubclass(cls, types.ModuleType):
            found = attributes.read_module
        elif issubclass(cls, type):
            found = attributes.read_class
        elif _frames.is_heap_type(cls):
            found = attributes.read_instance
        else:
            found = attributes.read_native
    return found


def writer_of(cls: type) -> Any:
    found = WRITERS.get(id(cls))
    if found is None:
        if issubclass(cls, types.ModuleType):
            found = attributes.write_module
        elif issubclass(cls, type):
            found = attributes.write_class
        elif _frames.is_heap_type(cls):
            found = attributes.write_instance
        else:
            found = write_c_object
    return found


def write_c_object(host: World, f: Frame, obj: Any, name: str, value: Any) -> None:
    record = host.records.get(id(obj))
    if record is not None and record.inner is record.obj:
        raise host.refuse("outside-write", f"attribute {name!r} of an outside {type(obj).__name__}", target=name)
    attributes.write_native(host, f, obj, name, value)


def read_frame(host: Any, f: Frame, frame: Any, name: str) -> Any:
    """Attributes of frame objects: CPython's frames are brought in step first."""
    if name == "f_globals":
        namespace = host.namespace(frame.f_globals)
        return frame.f_globals if namespace is None else namespace.expose()
    if name != "f_locals":
        return attributes.read_native(host, f, frame, name)
    lent = host.lend_frames(f)
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
        types.ModuleType: attributes.write_module,
        types.FunctionType: attributes.write_function,
        type: attributes.write_class,
        types.CellType: attributes.write_cell,
        threading.local: write_thread_local,
    }
)
