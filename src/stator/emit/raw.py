"""Reading classes and instances through C slots only, so that no user code runs."""

from __future__ import annotations

import functools
import keyword
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Container, Iterator
from typing import Any

from stator import _entry

_type: Any = type.__dict__
mro = _type["__mro__"].__get__
bases = _type["__bases__"].__get__
base = _type["__base__"].__get__
class_dict = _type["__dict__"].__get__
class_name = _type["__name__"].__get__
class_qualname = _type["__qualname__"].__get__
flags = _type["__flags__"].__get__
basicsize = _type["__basicsize__"].__get__
dictoffset = _type["__dictoffset__"].__get__

HEAP_TYPE = 1 << 9
IMMUTABLE_TYPE = 1 << 8
MANAGED_DICT = 1 << 4
POINTER = 8
_RESERVED = frozenset((*keyword.kwlist, "__debug__"))
ABSENT: Any = type("Absent", (), {"__slots__": (), "__repr__": lambda self: "ABSENT"})()

# Types whose attribute access is CPython's generic one, although they carry slot wrappers of their own.
_GENERIC_ATTRIBUTES = frozenset(
    id(cls)
    for cls in (
        *(object, BaseException, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(deque, OrderedDict, defaultdict, functools.partial, types.FunctionType, types.SimpleNamespace),
    )
)
DATA_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def is_a(obj: object, cls: type) -> bool:
    """isinstance by layout: `__class__` and `__instancecheck__` are not asked."""
    return derives(type(obj), cls)


def derives(cls: type, ancestor: type) -> bool:
    return any(step is ancestor for step in mro(cls))


def lookup(cls: type, name: str) -> Any:
    """The class attribute, without descriptors and without the metaclass."""
    for step in mro(cls):
        found = class_dict(step).get(name, ABSENT)
        if found is not ABSENT:
            return found
    return ABSENT


def slot_members(cls: type) -> list[tuple[str, Any]]:
    """The member descriptors that `__slots__` of this very class made."""
    seen: list[Any] = []
    members = []
    for name, value in class_dict(cls).items():
        if (
            type(value) is types.MemberDescriptorType
            and value.__objclass__ is cls
            and not any(value is other for other in seen)
        ):
            seen.append(value)
            members.append((name, value))
    return members


def adds_only_python_state(cls: type) -> bool:
    """Is everything that cls adds to its base's memory layout a `__dict__`, `__weakref__` or slots?"""
    names = class_dict(cls)
    constructor = names.get("__new__")
    if type(constructor) is types.BuiltinFunctionType and constructor.__self__ is cls:
        return False
    if not flags(cls) & HEAP_TYPE or flags(cls) & IMMUTABLE_TYPE:
        return False
    parent = base(cls)
    added = len(slot_members(cls)) + ("__weakref__" in names)
    # A managed dict lives in front of the object.
    if dictoffset(cls) and not dictoffset(parent) and not flags(cls) & MANAGED_DICT:
        added += 1
    return basicsize(cls) - basicsize(parent) == added * POINTER


def solid_base(cls: type, known: Container[int]) -> type:
    """The nearest class along `__base__` with a recipe of its own (by id), else the nearest one with C state."""
    while id(cls) not in known and cls is not object and adds_only_python_state(cls):
        cls = base(cls)
    return cls


def slots(obj: object, solid: type) -> Iterator[tuple[Any, object]]:
    """(member descriptor, value) of every filled slot between type(obj) and its solid base, base class first."""
    chain = []
    step = type(obj)
    while step is not solid:
        chain.append(step)
        step = base(step)
    for owner in reversed(chain):
        for _, member in slot_members(owner):
            try:
                yield member, member.__get__(obj, owner)
            except AttributeError:
                continue


def ordered_items(obj: Any) -> list[tuple[Any, Any]]:
    """Items of an OrderedDict in its own order; its own iterator would hash the keys."""
    values = {id(key): value for key, value in dict.items(obj)}
    return [(key, values[id(key)]) for key, _ in _entry.stored_hashes(obj)]


def dict_descriptor(cls: type) -> Any:
    """The C descriptor of the instance `__dict__`, whatever class attributes hide it, or None."""
    for step in mro(cls):
        descriptor = class_dict(step).get("__dict__")
        if type(descriptor) in DATA_DESCRIPTORS and step is not type:
            return descriptor
    return None


def instance_dict(obj: object) -> tuple[Any, Any]:
    """(the `__dict__` of obj, the descriptor that gives it), or (None, None)."""
    descriptor = dict_descriptor(type(obj))
    return (None, None) if descriptor is None else (descriptor.__get__(obj, type(obj)), descriptor)


def hides_dict(obj: object) -> bool:
    """Has obj a `__dict__` that no descriptor gives, because its class has another attribute of that name?"""
    return dictoffset(type(obj)) != 0 and dict_descriptor(type(obj)) is None


def is_data_descriptor(value: object) -> bool:
    cls = type(value)
    return lookup(cls, "__set__") is not ABSENT or lookup(cls, "__delete__") is not ABSENT


def _is_generic(cls: type, method: str) -> bool:
    wrapper = lookup(cls, method)
    return type(wrapper) is types.WrapperDescriptorType and id(wrapper.__objclass__) in _GENERIC_ATTRIBUTES


def is_name(name: object) -> bool:
    """Can name be written after a dot? Other alphabets are normalised by the parser, so they cannot."""
    return type(name) is str and name.isascii() and name.isidentifier() and name not in _RESERVED


def stores_plainly(cls: type, name: object) -> bool:
    """Does `x.name = v` do nothing but put v into the instance `__dict__`?"""
    if (
        not dictoffset(cls)
        or not is_name(name)
        or not _is_generic(cls, "__setattr__")
        or not _is_generic(cls, "__delattr__")
    ):
        return False
    found = lookup(cls, name)  # type: ignore[arg-type]
    return found is ABSENT or not is_data_descriptor(found)


def stores_through(cls: type, name: str, descriptor: object) -> bool:
    """Does `x.name = v` go to exactly this data descriptor?"""
    return is_name(name) and _is_generic(cls, "__setattr__") and lookup(cls, name) is descriptor


def reads_dict_plainly(cls: type, descriptor: object) -> bool:
    """Does `x.__dict__` give the instance `__dict__` without user code?"""
    return _is_generic(cls, "__getattribute__") and lookup(cls, "__dict__") is descriptor


def hash_reads_contents(key: object) -> bool:
    """Does hash(key) look at more than the key's identity and its immutable value?"""
    method = lookup(type(key), "__hash__")
    return not (type(method) is types.WrapperDescriptorType and id(method.__objclass__) in _PLAIN_HASHES)


_PLAIN_HASHES = {
    id(cls)
    for cls in (
        object,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        type,
        types.CodeType,
        range,
        types.BuiltinFunctionType,
    )
}
