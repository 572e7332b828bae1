"""Classes change their version when an attribute is set and set back; what they contain tells whether they changed.

Nothing here keeps a class alive.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Any

from stator import _entry, _frames
from stator.guards import path as paths
from stator.guards.check import TYPE_VERSION
from stator.guards.mortal import alive, held
from stator.guards.path import Path

# Attributes that lead back to their class, and what tells two of them apart.
PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    property: lambda value: (value.fget, value.fset, value.fdel),
    staticmethod: lambda value: (value.__func__,),
    classmethod: lambda value: (value.__func__,),
    types.GetSetDescriptorType: lambda value: (value.__objclass__, value.__name__),
    types.MemberDescriptorType: lambda value: (value.__objclass__, value.__name__),
}


# Callables and descriptors that keep nothing of their own, unless they are bound.
STATELESS = (
    types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.MemberDescriptorType, types.GetSetDescriptorType, types.ClassMethodDescriptorType, types.MethodWrapperType,
    property, classmethod, staticmethod, type,
)  # fmt: skip


def is_special_object(value: Any) -> bool:
    """Whether an instance, or a method bound to one, stands for a special method."""
    if type(value) in (types.BuiltinFunctionType, types.MethodWrapperType):
        return type(value.__self__) not in (types.ModuleType, type, type(None))
    return not issubclass(type(value), STATELESS) and (callable(value) or _frames.descriptor_kind(type(value)) != 0)


# Special names that C code of CPython, torch and numpy looks for; operators have reflected and in-place forms.
OPERATORS = "add and divmod floordiv lshift matmul mod mul or pow rshift sub truediv xor"
PROTOCOLS = """
    abs abstractmethods aenter aexit aiter anext annotations args await bases bool build_class bytes call ceil class
    class_getitem complex conform contains copy deepcopy del delattr delete delitem dict dir doc enter eq exit float
    floor format fspath func ge get getattr getattribute getitem getnewargs getnewargs_ex getstate gt hash import index
    init init_subclass instancecheck int invert isabstractmethod iter le len length_hint lt match_args missing module
    mro mro_entries name ne neg new next notes origin parameters pos prepare qualname reduce reduce_ex repr reversed
    round self set set_name setattr setitem setstate sizeof slots str subclasscheck subclasshook text_signature trunc
    typing_prepare_subst typing_subst typing_unpacked_tuple_args weakref wrapped
    array array_finalize array_function array_interface array_namespace array_prepare array_priority array_struct
    array_ufunc array_wrap cuda_array_interface dlpack dlpack_device torch_dispatch torch_function
"""
FORMS = [prefix + name for name in OPERATORS.split() for prefix in ("", "r", "i")]
LOOKED_UP = frozenset(f"__{name}__" for name in [*PROTOCOLS.split(), *FORMS])


class Attribute:
    """What is remembered of one attribute of a class."""

    __slots__ = ("kind", "parts")

    def __init__(self, value: Any) -> None:
        self.kind = type(value) if type(value) in PARTS else None
        self.parts = [held(part) for part in (PARTS[self.kind](value) if self.kind else (value,))]

    def is_still(self, value: Any) -> bool:
        if self.kind is None:
            return alive(self.parts[0]) is value
        if type(value) is not self.kind:
            return False
        now = PARTS[self.kind](value)
        return all(alive(before) is part for before, part in zip(self.parts, now, strict=True))


NAME, QUALNAME = type.__dict__["__name__"], type.__dict__["__qualname__"]
DATA = frozenset({int, float, str})


def is_reserved(name: str) -> bool:
    """Names that C code looks for, as `__slots__` and `_length_`."""
    return name.startswith("_") and name.endswith("_")


def place_of(cls: type, name: str) -> Path:
    """The path of what a class itself holds."""
    return paths.const(cls).class_item(name)


def names_of(cls: type) -> tuple[str, str]:
    """What C calls a class; its metaclass is not asked."""
    return NAME.__get__(cls), QUALNAME.__get__(cls)


def held_by(cls: type) -> dict[str, Any]:
    """The attributes of a class itself, without what pickling notes in it."""
    own = dict(_frames.class_dict(cls))
    own.pop("__slotnames__", None)
    return own


class Contents:
    """The attributes of one class in one version."""

    __slots__ = ("attributes", "names", "reference", "special", "version")

    def __init__(self, cls: type, version: int) -> None:
        self.reference = weakref.ref(cls, partial(_latest.pop, id(cls)))  # in C: no interruption
        self.version = version
        own = held_by(cls)
        self.names = names_of(cls)
        self.attributes = {name: Attribute(value) for name, value in own.items()}
        self.special = [
            name
            for name, value in own.items()
            if name.startswith("__") and name.endswith("__") and is_special_object(value)
        ]

    def are_still(self, cls: type, guarded: Container[Path] = ()) -> bool:
        """Whether the class has the same attributes; numbers and texts that are guarded by themselves may be others."""
        now = held_by(cls)
        if len(self.attributes) != len(now) or self.names != names_of(cls):
            return False
        for name, attribute in self.attributes.items():
            if name not in now:
                return False
            may_differ = type(now[name]) in DATA and place_of(cls, name) in guarded
            if not may_differ and not attribute.is_still(now[name]):
                return False
        return True

    def data(self, cls: type) -> Iterator[tuple[Path, Any, Any]]:
        """Numbers and texts that the class holds others of now: where, and both."""
        for name, now in _frames.class_dict(cls).items():
            attribute = self.attributes.get(name)
            if attribute is None or attribute.kind is not None or type(now) not in DATA or is_reserved(name):
                continue
            before = alive(attribute.parts[0])
            if type(before) is type(now) and before is not now:
                yield place_of(cls, name), before, now


_latest: dict[int, Contents] = {}  # by address, for as long as the class lives; captures of one version share them


def contents_of(cls: type) -> Contents:
    version = _entry.type_version(cls)
    known = _latest.get(id(cls))
    if known is None or known.version != version or not version:
        known = _latest[id(cls)] = Contents(cls, version)
    return known


class ClassContents:
    """What the guarded classes of one capture contained."""

    def __init__(self) -> None:
        self.versions: dict[int, tuple[weakref.ref[type], int]] = {}
        self.bases: dict[int, Contents] = {}
        self.varying: Container[Path] = ()  # numbers and texts in classes that come through the door when they are read
        self.entered: set[Path] = set()  # those that did, and have guards of their own; C code may read others

    def note(self, cls: type, version: int) -> None:
        self.versions[id(cls)] = (weakref.ref(cls), version)
        for base in cls.__mro__:
            if id(base) not in self.bases and _frames.is_heap_type(base):
                self.bases[id(base)] = contents_of(base)

    def refresh(self, guards: Any) -> list[tuple[int, int]]:
        """Guard the versions that unchanged classes have now: those that were others, before and now."""
        changed = []
        for address, (reference, version) in list(self.versions.items()):
            cls = reference()
            now = 0 if cls is None else _entry.type_version(cls)
            if cls is not None and now != version and now and all(self.unchanged(base) for base in cls.__mro__):
                guards.replace(paths.const(cls), TYPE_VERSION, now)
                self.versions[address] = (reference, now)
                changed.append((version, now))
        return changed

    def data(self) -> Iterator[tuple[Path, Any, Any]]:
        """Numbers and texts of these classes that are others now."""
        for known in self.bases.values():
            if (cls := known.reference()) is not None and _entry.type_version(cls) != known.version:
                yield from known.data(cls)

    def unchanged(self, base: type) -> bool:
        known = self.bases.get(id(base))
        if known is None or known.reference() is not base:
            return not _frames.is_heap_type(base)
        return known.are_still(base, self.entered)
