"""Assignments to attributes and `del`, where the value is UNBOUND; of outside objects they go to an overlay."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.frame import Frame, native
from stator.world.attributes import C_DATA, Function, is_c_data, outside_cell, read_function, require_slot, undeletable
from stator.world.types import class_value

if TYPE_CHECKING:
    from stator.world.world import World

RAW_WRITE = _frames.original_setattr
GENERATOR_TEXTS = ("__name__", "__qualname__")  # C gives them to the generators that a function makes
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
FUNCTION_TEXTS = frozenset({"__name__", "__qualname__", "__doc__", "__module__", "__annotations__"})


def write_instance(world: World, f: Frame, obj: Any, name: str, value: Any) -> None:
    """obj.name = value (UNBOUND: del) for an instance of a class made in Python."""
    record = world.records.get(id(obj))
    if record is None or record.obj is not obj:
        return write_native(world, f, obj, name, value)
    info = world.type_info(type(obj))
    if not (info.generic_delete if value is UNBOUND else info.generic_write):
        method = _frames.type_lookup(type(obj), "__delattr__" if value is UNBOUND else "__setattr__")
        if type(method) is types.WrapperDescriptorType:  # C's own
            raise world.refuse("outside-write", f"attribute {name!r} of an outside {type(obj).__name__}", target=name)
        return write_native(world, f, obj, name, value)
    return write_generic(world, f, record, name, value)


def write_generic(world: World, f: Frame, record: Any, name: str, value: Any) -> None:
    """What object.__setattr__ does to an outside instance."""
    obj = record.obj
    found = _frames.type_lookup(type(obj), name)
    if world.class_writes and _frames.descriptor_kind(type(world.class_overlay(type(obj), name))) & 2:
        detail = f"assignment to {type(obj).__name__}.{name}, which was patched"
        raise world.refuse("outside-write", detail, target=name)
    if found is not UNBOUND and _frames.descriptor_kind(type(found)) & 2:
        if is_c_data(found):
            if type(found) is not types.MemberDescriptorType or not _frames.is_python_class(found.__objclass__):
                raise world.refuse("outside-write", f"assignment to {type(obj).__name__}.{name}", target=name)
            if value is UNBOUND:
                require_slot(world, f, record, name, found)
            slots = record.extra = record.extra or {}
            before = slots[name][0] if name in slots else UNBOUND
            slots[name] = (before, value, found)
            world.touch(record)
            return None
        found = class_value(world, type(obj), name, found)
        if value is UNBOUND:
            native(f, _frames.descr_set, found, obj)
        else:
            native(f, _frames.descr_set, found, obj, value)
        return None
    if _frames.instance_dict(obj) is None and not world.has_dict(obj):
        return refuse_plainly(f, obj, name, value)
    namespace = world.namespace_of(record, materialise=True)
    if value is UNBOUND and namespace.get(name) is UNBOUND:
        undeletable(f, obj, name)
    world.touch(record)
    namespace.set(name, value)
    return None


def refuse_plainly(f: Frame, obj: Any, name: str, value: Any) -> None:
    """There is no place for the attribute: CPython's words for it, without a `__setattr__` of the user's."""
    if value is UNBOUND:
        native(f, object.__delattr__, obj, name)
    else:
        native(f, object.__setattr__, obj, name, value)


def write_native(world: World, f: Frame, obj: Any, name: str, value: Any) -> None:
    if value is UNBOUND:
        native(f, RAW_WRITE, obj, name)
    else:
        native(f, RAW_WRITE, obj, name, value)


def write_module(world: World, f: Frame, module: Any, name: str, value: Any) -> None:
    record = world.records.get(id(module))
    if record is None:
        return write_native(world, f, module, name, value)
    found = _frames.type_lookup(type(module), name)
    if name != "__annotations__" and found is not UNBOUND and _frames.descriptor_kind(type(found)) & 2:
        return write_generic(world, f, record, name, value)
    namespace = world.namespace_of(record)
    if value is UNBOUND and namespace.get(name) is UNBOUND:
        undeletable(f, module, name)
    world.touch(record)
    namespace.set(name, value)
    return None


def write_class(world: World, f: Frame, cls: Any, name: str, value: Any) -> None:
    if world.is_inside_type(cls) or not _frames.is_heap_type(cls):
        return write_native(world, f, cls, name, value)
    hook = _frames.type_lookup(type(cls), "__delattr__" if value is UNBOUND else "__setattr__")
    if type(hook) is Function:
        world.call(f, hook, [cls, name] if value is UNBOUND else [cls, name, value], None)
        return None
    return world.write_class(f, cls, name, value)


def write_function(world: World, f: Frame, function: Any, name: str, value: Any) -> None:
    if world.is_inside_function(function):
        return write_native(world, f, function, name, value)
    record = world.record_of(function)
    found = _frames.type_lookup(type(function), name)
    if found is not UNBOUND and type(found) in C_DATA:
        makes = name in GENERATOR_TEXTS and function.__code__.co_flags & GENERATORS
        if name not in FUNCTION_TEXTS or value is UNBOUND or makes:
            raise world.refuse("outside-write", f"assignment to {name} of an outside function", target=name)
        before = read_function(world, f, function, name)
        record.extra[name] = (record.extra[name][0] if name in record.extra else before, value, found)
        world.touch(record)
        return None
    world.touch(record)
    namespace = world.namespace_of(record, materialise=True)
    if value is UNBOUND and namespace.get(name) is UNBOUND:
        return write_native(world, f, function, name, value)
    namespace.set(name, value)
    return None


def write_cell(world: World, f: Frame, cell: Any, name: str, value: Any) -> None:
    known = outside_cell(world, cell) if name == "cell_contents" else None
    if known is None:
        return write_native(world, f, cell, name, value)
    known[3] = value
    return None
