"""What capture needs to know about a class, found out once per capture."""

from __future__ import annotations

import operator
import sys
import types
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.errors import unsupported
from stator.guards import path as paths
from stator.guards.check import show
from stator.world.class_contents import LOOKED_UP, contents_of, place_of

if TYPE_CHECKING:
    from stator.world.world import World

MRO = type.__dict__["__mro__"]

# Values of a class dict that need no import: the class's version pins them, and they hold nothing mutable of their own,
# but for what descriptors call.
PINNED = {
    int, float, complex, str, bytes, bool, type(None), type(...), types.FunctionType, types.BuiltinFunctionType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.MemberDescriptorType, types.GetSetDescriptorType,
    types.ClassMethodDescriptorType, property, classmethod, staticmethod, types.MethodWrapperType,
}  # fmt: skip

CALLED = {staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel")}


class TypeInfo:
    """Facts about one class."""

    __slots__ = ("cls", "generic_delete", "generic_read", "generic_write", "has_getattr", "inside", "pure_inside")

    def __init__(self, world: World, cls: type) -> None:
        self.cls = cls
        self.inside = world.is_inside_type(cls)
        mro = MRO.__get__(cls) or ()  # None while a class is being made
        outside = [base for base in mro if _frames.is_heap_type(base) and id(base) not in world.inside_types]
        self.pure_inside = not outside
        for base in outside[:1] if outside and outside[0] is cls else outside:
            world.guard_type(base)
        for base in outside:
            if id(base) not in world.ordinary:
                enter_special_objects(world, base)
        access = _frames.generic_access(cls)
        self.has_getattr = _frames.type_lookup(cls, "__getattr__") is not UNBOUND
        self.generic_read = bool(access & 1) or (self.has_getattr and is_objects_own(cls, "__getattribute__", 1))
        # One C slot stands for both: a class with one of the methods has the other from `object`.
        self.generic_write = bool(access & 2) or is_objects_own(cls, "__setattr__", 2)
        self.generic_delete = bool(access & 2) or is_objects_own(cls, "__delattr__", 2)


def is_objects_own(cls: type, name: str, access: int) -> bool:
    """Whether a method for attributes does what that of `object` does, also where a C class names it again."""
    found = _frames.type_lookup(cls, name)
    if type(found) is not types.WrapperDescriptorType:
        return False
    return found.__objclass__ is object or bool(_frames.generic_access(found.__objclass__) & access)


def descriptors_of(cls: type, known: dict[int, type]) -> list[tuple[type, str, Any]]:
    """The descriptors along the MRO that are instances of classes made in Python, but for those of known classes.

    C hands them to their methods, which may write to them.
    """
    found = []
    for owner in MRO.__get__(cls):
        if id(owner) not in known and _frames.is_heap_type(owner):
            known[id(owner)] = owner
            items = _frames.class_dict(owner).items()
            found += [(owner, name, value) for name, value in items if type(value) not in PINNED and describes(value)]
    return found


def describes(value: Any) -> bool:
    """Whether this is a descriptor made in Python; what C keeps in its own classes has no overlay."""
    kind = type(value)
    if not _frames.is_python_class(kind) or not _frames.descriptor_kind(kind):
        return False
    return all(map(_frames.is_heap_type, MRO.__get__(kind)[:-1]))


def enter_special_objects(world: World, base: type) -> None:
    """Callables with state in place of special methods: C reaches them without the door."""
    special = contents_of(base).special
    if not special:
        world.ordinary[id(base)] = base
    for name in special:
        value = _frames.class_dict(base)[name]
        if world.enter(value, paths.const(base).class_item(name)) is not value and name in LOOKED_UP:
            raise unsupported("outside-type", f"{name} of {show(base)} is a {type(value).__name__}", type=base.__name__)


def owner_of(cls: type, name: str) -> type:
    """The class along the MRO whose own dict has the name."""
    for base in MRO.__get__(cls):
        if name in _frames.class_dict(base):
            return base
    raise unsupported("internal", f"{name} vanished from {show(cls)}")


def class_value(world: World, cls: type, name: str, value: Any) -> Any:
    """A class attribute as capture may see it: outside values that are not pinned come through the door."""
    if type(value) in PINNED:
        if type(value) is types.BuiltinFunctionType:
            world.notice_builtin(value)
        elif type(value) in CALLED:
            value = with_known(world, cls, name, value)
        if not world.classes.varying or (place := place_of(owner_of(cls, name), name)) not in world.classes.varying:
            return value
        world.classes.entered.add(place)
    owner = owner_of(cls, name)
    if world.is_inside_type(owner) or not _frames.is_heap_type(owner):
        return value
    return world.light(value, paths.const(owner).class_item(name))


def with_known(world: World, cls: type, name: str, value: Any) -> Any:
    """A descriptor whose functions came through the door, where they are more than plain functions."""
    parts = [getattr(value, part) for part in CALLED[type(value)]]
    if all(map(is_plain, parts)):
        return value
    owner = owner_of(cls, name)
    if world.is_inside_type(owner) or not _frames.is_heap_type(owner):
        return value
    place = paths.const(owner).class_item(name)
    known = [
        part if is_plain(part) else world.enter(part, place.get(attribute))
        for attribute, part in zip(CALLED[type(value)], parts, strict=True)
    ]
    return value if all(map(operator.is_, known, parts)) else type(value)(*known)


def is_plain(part: Any) -> bool:
    """A function that keeps nothing of its own, or a class."""
    return type(part) in PINNED or issubclass(type(part), type)


def is_at_home(cls: type) -> bool:
    """Whether a module holds the class under its name, as those do that C code loaded during a capture."""
    if not FLAGS.__get__(cls) & READY:  # making it failed
        return False
    contents: Any = _frames.class_dict(cls)
    module = contents.get("__module__")
    found: Any = sys.modules.get(module) if type(module) is str else None
    contents = None if found is None else _frames.instance_dict(found)
    for name in QUALNAME.__get__(cls).split("."):
        found = contents.get(name) if contents is not None else None
        contents = _frames.class_dict(found) if isinstance(found, type) else None
    return found is cls


QUALNAME: Any = type.__dict__["__qualname__"]
FLAGS: Any = type.__dict__["__flags__"]
READY = 1 << 12  # Py_TPFLAGS_READY
