"""Attribute access exactly as CPython does it, with outside objects read through the door."""

from __future__ import annotations

import operator
import sys
import types
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from torch.backends import PropModule

from stator import _frames
from stator._frames import FAILED, UNBOUND
from stator.frame import RAISED, Frame, Raised, forget_tracebacks, native, throw
from stator.world.hollow_namespaces import as_dict
from stator.world.types import class_value, with_known

if TYPE_CHECKING:
    from stator.world.world import World

RAW_READ = _frames.original_getattr
Function, Method = types.FunctionType, types.MethodType
TUPLE_FIELD = type(namedtuple("Named", "field").__dict__["field"])  # reads an item, which has come through the door
BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
NAME, OBJ = AttributeError.__dict__["name"], AttributeError.__dict__["obj"]
C_DATA = (types.GetSetDescriptorType, types.MemberDescriptorType)
Reader = Callable[["World", Frame, Any, str], Any]


def absent(f: Frame, obj: Any, name: str) -> Any:
    """AttributeError as object.__getattribute__ raises it."""
    text = f"'{type(obj).__name__}' object has no attribute '{name}'"
    return throw(f, AttributeError(text, name=name, obj=obj))


def undeletable(f: Frame, obj: Any, name: str) -> Any:
    """The same as object.__delattr__ raises it, which says nothing more."""
    return throw(f, AttributeError(f"'{type(obj).__name__}' object has no attribute '{name}'"))


def note_missing(f: Frame, obj: Any, name: str) -> None:
    """An AttributeError that says neither what was sought nor in what is told by CPython, whoever raised it."""
    error = f.error
    if isinstance(error, AttributeError) and NAME.__get__(error) is None and OBJ.__get__(error) is None:
        NAME.__set__(error, name)
        OBJ.__set__(error, obj)


def instance_value(world: World, obj: Any, name: str) -> Any:
    """The instance dict's entry or UNBOUND."""
    record = world.records.get(id(obj))
    if record is not None and record.obj is obj:
        return world.namespace_of(record).get(name)
    attributes = _frames.instance_dict(obj)
    return UNBOUND if attributes is None else attributes.get(name, UNBOUND)


def read_instance(world: World, f: Frame, obj: Any, name: str) -> Any:
    """obj.name for an instance of a class made in Python."""
    function, receiver = read_method(world, f, obj, name)
    return function if receiver is UNBOUND else Method(function, receiver)


def read_method(world: World, f: Frame, obj: Any, name: str) -> tuple[Any, Any]:
    """obj.name as (value, UNBOUND), or as (function, obj) where it is a plain method."""
    cls = type(obj)
    info = world.type_info(cls)
    if info.pure_inside:
        return native(f, RAW_READ, obj, name), UNBOUND
    if not info.generic_read:
        method = _frames.type_lookup(cls, "__getattribute__")
        if type(method) is types.WrapperDescriptorType and not info.has_getattr:  # C's own
            return read_native(world, f, obj, name), UNBOUND
        return native(f, RAW_READ, obj, name), UNBOUND
    return read_parts(world, f, obj, name, info.has_getattr)


def read_generic(world: World, f: Frame, obj: Any, name: str) -> Any:
    """object.__getattribute__(obj, name)."""
    function, receiver = read_parts(world, f, obj, name, has_getattr=False)
    return function if receiver is UNBOUND else Method(function, receiver)


def read_parts(world: World, f: Frame, obj: Any, name: str, has_getattr: bool) -> tuple[Any, Any]:
    """The generic algorithm: data descriptor, instance, other class attribute, __getattr__."""
    cls = type(obj)
    found = world.class_overlay(cls, name) if world.class_writes else UNBOUND
    written = found is not UNBOUND
    if not written:
        found = _frames.type_lookup(cls, name)
    kind = 0
    if found is not UNBOUND:
        if type(found) is Function:
            value = instance_value(world, obj, name)
            return (found, obj) if value is UNBOUND else (value, UNBOUND)
        kind = _frames.descriptor_kind(type(found))
        if kind & 2:
            if written:
                read = partial(native, f, _frames.descr_get, found, obj, cls)
            else:
                read = partial(read_data_descriptor, world, f, obj, name, found)
            return answered(world, f, obj, name, read) if has_getattr else read(), UNBOUND
    value = instance_value(world, obj, name)
    if value is not UNBOUND:
        return value, UNBOUND
    if found is not UNBOUND:
        if not written:
            found = class_value(world, cls, name, found)
        if kind & 1:
            if has_getattr:
                return answered(world, f, obj, name, partial(read_descriptor, f, found, obj)), UNBOUND
            return read_descriptor(f, found, obj), UNBOUND
        return found, UNBOUND
    if has_getattr:
        return world.missing_attribute(f, obj, name), UNBOUND
    return absent(f, obj, name), UNBOUND


def answered(world: World, f: Frame, obj: Any, name: str, read: Callable[[], Any]) -> Any:
    """What a descriptor gives, or `__getattr__` where that raises AttributeError."""
    f.tail = -1
    try:
        return read()
    except Raised as raised:
        if raised is not RAISED or not isinstance(f.error, AttributeError):
            raise
        forget_tracebacks()
        f.error = None
    return world.missing_attribute(f, obj, name)


def read_data_descriptor(world: World, f: Frame, obj: Any, name: str, descriptor: Any) -> Any:
    if type(descriptor) is property:
        if descriptor.fget is None:
            return native(f, _frames.descr_get, descriptor, obj, type(obj))
        return world.call(f, with_known(world, type(obj), name, descriptor).fget, [obj], None)
    if is_c_data(descriptor):
        record = world.records.get(id(obj))
        if record is not None and record.obj is obj:
            return read_slot(world, f, record, name, descriptor)
        return native(f, _frames.descr_get, descriptor, obj, type(obj))
    return read_descriptor(f, class_value(world, type(obj), name, descriptor), obj)


def is_c_data(descriptor: Any) -> bool:
    """Whether C keeps what a data descriptor reads and writes, also one of a kind of its own as ctypes has."""
    kind = type(descriptor)
    return kind in C_DATA or (kind not in (property, TUPLE_FIELD) and not _frames.is_heap_type(kind))


def read_descriptor(f: Frame, descriptor: Any, obj: Any) -> Any:
    """Its `__get__` may be one of the user's, started for this instruction."""
    if f.tail == f.lasti:
        method = _frames.type_lookup(type(descriptor), "__get__")
        f.called = method if type(method) is Function else None
    return native(f, _frames.descr_get, descriptor, obj, type(obj))


def read_slot(world: World, f: Frame, record: Any, name: str, descriptor: Any) -> Any:
    """A slot or C attribute of an outside instance."""
    if name == "__class__" and type(descriptor) is types.GetSetDescriptorType:  # no slot of that name
        return type(record.obj)
    if name == "__dict__":
        return as_dict(world.namespace_of(record))
    if name == "__weakref__":
        return None
    slots = record.extra = record.extra or {}
    if name in slots:
        value = slots[name][1]
        if value is UNBOUND:
            return absent(f, record.obj, name)
        return value
    real = _frames.native(_frames.descr_get, descriptor, record.obj, type(record.obj))
    if real is FAILED:
        world.guard_slot_empty(record, name, descriptor)
        slots[name] = (UNBOUND, UNBOUND, descriptor)
        raise RAISED
    plain = type(descriptor) in C_DATA
    value = world.light(real, record.path.get(name) if plain else record.path.part(name, operator.attrgetter(name)))
    slots[name] = (value, value, descriptor)
    return value


def require_slot(world: World, f: Frame, record: Any, name: str, descriptor: Any) -> None:
    """Deleting an empty slot raises."""
    try:
        read_slot(world, f, record, name, descriptor)
    except Raised:
        throw(f, AttributeError(name))


def reads_as_modules(world: World, cls: type) -> bool:
    """Whether attributes of an instance are those of a module: in its dict, or else in its class."""
    if cls is types.ModuleType or world.type_info(cls).generic_read:
        return True
    if cls.__module__.startswith("torch.") and not issubclass(cls, PropModule):  # torch makes attributes on the way
        return False
    return _frames.type_lookup(cls, "__getattribute__") is vars(types.ModuleType)["__getattribute__"]


def read_module(world: World, f: Frame, module: Any, name: str) -> Any:
    if not reads_as_modules(world, type(module)):
        return native(f, RAW_READ, module, name)
    return read_plain_module(world, f, module, name)


def read_plain_module(world: World, f: Frame, module: Any, name: str) -> Any:
    """types.ModuleType.__getattribute__(module, name)."""
    record = world.records.get(id(module))
    if record is None:
        if sys.modules.get(_frames.instance_dict(module).get("__name__")) is not module:
            return native(f, types.ModuleType.__getattribute__, module, name)
        record = world.record_of(module)  # native code got hold of it by itself
    namespace = world.namespace_of(record)
    if name == "__dict__":
        return as_dict(namespace)
    if name == "__class__":
        return type(module)
    found = _frames.type_lookup(type(module), name)
    if found is not UNBOUND and _frames.descriptor_kind(type(found)) & 2:
        return native(f, types.ModuleType.__getattribute__, module, name)
    overlay = world.class_overlay(type(module), name)
    value = namespace.get(name)
    if value is not UNBOUND:
        return value
    found = found if overlay is UNBOUND else overlay
    if found is not UNBOUND:
        if _frames.descriptor_kind(type(found)) & 1:
            return native(f, _frames.descr_get, found, module, type(module))
        return class_value(world, type(module), name, found) if overlay is UNBOUND else overlay
    if type(module) is not types.ModuleType and world.type_info(type(module)).has_getattr:
        return native(f, RAW_READ, module, name)
    hook = namespace.get("__getattr__")
    if hook is not UNBOUND:
        return world.call(f, hook, [name], None)
    module_name = namespace.get("__name__")
    text = (
        f"module '{module_name}' has no attribute '{name}'"
        if type(module_name) is str
        else f"module has no attribute '{name}'"
    )
    return throw(f, AttributeError(text, name=name, obj=module))


CLASS_NAMES = frozenset(["__name__", "__qualname__"])

# Attributes of classes that C computes and that hold nothing a caller could change.
CLASS_PLAIN = frozenset([
    *CLASS_NAMES, "__module__", "__doc__", "__mro__", "__bases__", "__base__", "__class__", "__flags__",
    "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__", "__text_signature__",
])  # fmt: skip


def read_class(world: World, f: Frame, cls: Any, name: str) -> Any:
    """cls.name: metaclass data descriptors, then the MRO, then the metaclass."""
    meta = type(cls)
    if name in CLASS_NAMES and _frames.is_heap_type(cls) and not world.is_inside_type(cls):
        return world.enter(native(f, RAW_READ, cls, name), world.path_of(cls).get(name))
    if name in CLASS_PLAIN or not _frames.is_heap_type(cls) or world.type_info(cls).pure_inside:
        return native(f, RAW_READ, cls, name)
    info = world.type_info(meta)
    if (
        meta is not type
        and not info.generic_read
        and _frames.type_lookup(meta, "__getattribute__") is not type.__getattribute__
    ):
        return native(f, RAW_READ, cls, name)
    return read_plain_class(world, f, cls, name)


def read_plain_class(world: World, f: Frame, cls: Any, name: str, read: Any = RAW_READ) -> Any:
    """cls.name for a class made in Python, unless its metaclass has a `__getattribute__` of the program."""
    meta = type(cls)
    overlay = world.class_overlay(cls, name)
    if overlay is not UNBOUND:
        plain = type(overlay) is Function or not _frames.descriptor_kind(type(overlay)) & 1
        return overlay if plain else native(f, _frames.descr_get, overlay, None, cls)
    on_meta = _frames.type_lookup(meta, name)
    if on_meta is not UNBOUND and _frames.descriptor_kind(type(on_meta)) & 2:
        if world.is_inside_type(cls):
            return native(f, read, cls, name)
        return read_class_slot(world, f, cls, name, on_meta, read)
    found = _frames.type_lookup(cls, name)
    if found is not UNBOUND:
        if type(found) is Function:
            return found
        found = class_value(world, cls, name, found)
        if _frames.descriptor_kind(type(found)) & 1:
            return native(f, _frames.descr_get, found, None, cls)
        return found
    return native(f, read, cls, name)


def read_class_slot(world: World, f: Frame, cls: Any, name: str, descriptor: Any, read: Any) -> Any:
    """A metaclass data descriptor on an outside class."""
    if name == "__dict__":
        return world.class_namespace(cls)
    if type(descriptor) is property:
        return world.call(f, with_known(world, type(cls), name, descriptor).fget, [cls], None)
    if type(descriptor) in C_DATA:
        before = len(_frames.class_dict(cls))
        value = native(f, read, cls, name)
        if len(_frames.class_dict(cls)) != before:  # `__annotations__` is made when it is first read
            world.refresh_types(cls)
        return world.enter(value, world.path_of(cls).get(name))
    return native(f, _frames.descr_get, descriptor, cls, type(cls))


def read_function(world: World, f: Frame, function: Any, name: str) -> Any:
    """Attributes of function objects: outside ones through the door."""
    if name == "__closure__":
        world.cells_seen = True
        world.settle_all()
    if name in ("__globals__", "__builtins__"):  # of modules, also where the function was made by the program
        return world.function_part(function, name)
    if world.is_inside_function(function):
        return native(f, RAW_READ, function, name)
    found = _frames.type_lookup(type(function), name)
    record = world.record_of(function)
    if found is not UNBOUND and type(found) in C_DATA:
        if name in ("__code__", "__class__"):
            return world.function_part(function, name)
        if name == "__dict__":
            return as_dict(world.namespace_of(record, materialise=True))
        overlay = (record.extra or {}).get(name)
        if overlay is not None:
            return overlay[1]
        value = native(f, RAW_READ, function, name)
        entered = world.enter(value, record.path.get(name))
        record.extra = record.extra or {}
        record.extra[name] = (entered, entered, found)
        return entered
    value = world.namespace_of(record).get(name)
    if value is not UNBOUND:
        return value
    return native(f, object.__getattribute__, function, name)


def read_bound_method(world: World, f: Frame, method: Any, name: str) -> Any:
    """What a bound method lacks it reads from its function."""
    if name != "__doc__" and _frames.type_lookup(Method, name) is not UNBOUND:
        return read_native(world, f, method, name)
    return world.load_attr(f, method.__func__, name)


def outside_cell(world: World, cell: Any) -> list[Any] | None:
    """What capture knows about a cell from outside: functions that share it see what the program writes to it."""
    known = world.cells.get(id(cell))
    record = world.records.get(id(cell))
    if known is None and record is not None and record.obj is cell:
        known = world.enter_cell(cell, record.path)
    return known


def read_cell(world: World, f: Frame, cell: Any, name: str) -> Any:
    known = outside_cell(world, cell) if name == "cell_contents" else None
    if known is None:
        return read_native(world, f, cell, name)
    return throw(f, ValueError("Cell is empty")) if known[3] is UNBOUND else known[3]


def read_native(world: World, f: Frame, obj: Any, name: str) -> Any:
    """Objects of C types: CPython's own access; what it hands out of an outside object comes through the door."""
    record = world.records.get(id(obj))
    value = native(f, RAW_READ, obj, name)
    if record is None or record.inner is not record.obj:
        return value
    if isinstance(value, types.BuiltinFunctionType):
        world.notice_builtin(value)
    if type(value) in BOUND and (value.__self__ is obj or is_of_class(world, obj, name, value)):
        return value
    if type(value) is Method and value.__self__ is obj and is_fixed(type(obj), name, value.__func__):
        return value
    return world.enter(value, record.path.get(name))


def is_of_class(world: World, obj: Any, name: str, method: Any) -> bool:
    """Whether C has just bound a method to the class of an object, which does not change."""
    cls = type(obj)
    if method.__self__ is not cls or type(_frames.type_lookup(cls, name)) is not types.ClassMethodDescriptorType:
        return False
    if _frames.is_heap_type(cls):
        world.guard_type(cls)
    return True


def is_fixed(cls: type, name: str, function: Any) -> bool:
    """Whether a method is one that a class made in C has for ever: Cython makes such."""
    return not _frames.is_heap_type(cls) and _frames.type_lookup(cls, name) is function


def read_super(world: World, f: Frame, obj: Any, name: str) -> Any:
    """super() looks into classes by itself: it would not see what the program wrote to them."""
    if any(written == name for _, written in world.class_writes):
        raise world.refuse("outside-write", f"super().{name}, which was patched", target=name)
    return read_native(world, f, obj, name)
