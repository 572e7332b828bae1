"""Copies of outside objects that the program may change: their attributes and slots."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.guards.check import EQ, KEYS, SAME, TYPE_IS
from stator.world.exceptions import exception_fields

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


def shadow(world: World, obj: Any, path: Path, inner: Any) -> Any:
    """Guard the type and register before the elements enter: cycles end here."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    if type(obj).__module__ != "builtins":
        world.type_info(type(obj))
    return world.register(obj, path, inner)


def copy_attributes(world: World, obj: Any, path: Path, inner: Any) -> None:
    """Instance attributes and slots of a shadow whose class was made in Python (or in C with a `__dict__`)."""
    if type(obj).__dictoffset__:
        copy_fields(world, obj, path, inner)
    for name, member in slots_of(type(obj)):
        value = slot_value(member, obj)
        if value is not UNBOUND:
            member.__set__(inner, world.enter(value, path.get(name)))
    world.shadow_fields[id(inner)] = (inner, fields_of(inner))


def copy_fields(world: World, obj: Any, path: Path, inner: Any) -> None:
    """The instance dict: one that is only the object's, or the object itself (`self.__dict__ = self`)."""
    fields = _frames.instance_dict(obj)
    if fields is obj:
        world.guards.add(path.fields(), SAME, path, world.origin())
        object.__setattr__(inner, "__dict__", inner)
        return
    if fields is None and type(obj) is functools.partial:  # one with a dict, even an empty one, is not flattened
        world.guards.add(path.part("attributes", _frames.attribute_count), EQ, 0, world.origin())
        return
    world.guards.add(path.fields(), KEYS, tuple(fields or ()), world.origin())
    if fields is None:
        return
    if type(fields) is not dict or id(fields) in world.records:  # there is a shadow of it already
        raise world.refuse("outside-type", f"the __dict__ of a {type(obj).__name__}", type=type(obj).__name__)
    own = attributes_of(inner)
    world.register(fields, path.fields(), own)  # whose effects are those of its owner
    for name, value in list(fields.items()):
        own[name] = world.enter(value, path.attr(name) if type(name) is str else path.fields().entry(name))


def attributes_of(obj: Any) -> dict[Any, Any]:
    """The instance dict, made if need be."""
    own = _frames.instance_dict(obj)
    return object.__getattribute__(obj, "__dict__") if own is None else own


def slots_of(cls: type) -> list[tuple[str, Any]]:
    """(name, descriptor) of `__slots__` along the MRO."""
    return [
        (name, member)
        for base in type.__dict__["__mro__"].__get__(cls)
        if _frames.is_heap_type(base) and "__slots__" in _frames.class_dict(base)
        for name, member in _frames.class_dict(base).items()
        if type(member) is types.MemberDescriptorType and name != "__weakref__"
    ]


def slot_value(member: Any, obj: Any) -> Any:
    try:
        return member.__get__(obj)
    except AttributeError:
        return UNBOUND


def fields_of(obj: Any) -> dict[Any, Any]:
    """All attributes and filled slots of a shadow."""
    slots = {name: slot_value(member, obj) for name, member in slots_of(type(obj))}
    if issubclass(type(obj), BaseException):
        slots |= exception_fields(obj)
    fields = _frames.instance_dict(obj)
    return {
        **({} if fields is None or fields is obj else fields),
        **{name: value for name, value in slots.items() if value is not UNBOUND},
    }


def base_of(cls: type, bases: tuple[type, ...]) -> Any:
    """The builtin container class a subclass derives its storage from."""
    return next(base for base in bases if issubclass(cls, base))
