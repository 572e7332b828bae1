"""Keys of dicts and elements of sets: which of them C alone hashes and compares."""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator.world.constants import CONSTANT_TYPES

if TYPE_CHECKING:
    pass


def same_place(inner: Any, outer: Any) -> bool:
    """Whether a set has both at the same place."""
    return inner is outer or (is_c_hashed(inner) and is_c_hashed(outer) and hash(inner) == hash(outer))


def is_c_hashed(key: Any) -> bool:
    """Whether C alone (or Enum, by name; a tensor, by identity) hashes and compares the key."""
    cls = type(key)
    if cls is tuple or cls is frozenset:
        return all(is_key(part) or is_c_hashed(part) for part in key)
    hashed, equal = _frames.type_lookup(cls, "__hash__"), _frames.type_lookup(cls, "__eq__")
    if hashed in BY_ID:
        return True
    return (type(hashed) is types.WrapperDescriptorType or hashed is enum.Enum.__hash__) and type(
        equal
    ) is types.WrapperDescriptorType


BY_ID: list[Any] = []  # Python functions `__hash__` that give the id: no other object has the same hash


def is_key(key: Any) -> bool:
    """Whether equality of the key is decided by C alone: constants, and objects that hash by identity."""
    cls = type(key)
    if cls in CONSTANT_TYPES or cls in (range, slice):
        return True
    if cls is tuple or cls is frozenset:
        return all(map(is_key, key))
    return _frames.type_lookup(cls, "__hash__") in IDENTITY_HASHES


def is_lasting(key: Any) -> bool:
    """Whether guards may hold a key: objects of the program end when it lets go of them."""
    cls = type(key)
    if cls is tuple or cls is frozenset:
        return all(map(is_lasting, key))
    return cls in CONSTANT_TYPES or not _frames.is_heap_type(cls) or issubclass(cls, (type, enum.Enum))


IDENTITY_HASHES = (object.__hash__, type.__dict__.get("__hash__"), types.BuiltinFunctionType.__hash__, Ellipsis)
