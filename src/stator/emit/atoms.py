"""Constants: which objects are the same in every run, and which of them can be written down as literals."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import re
import struct
import sys
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

import torch

from . import raw

LONGEST_LITERAL = 120
LONGEST_INTEGER = 128  # bits


def _bounded(obj: object) -> str | None:
    text = repr(obj)
    return text if len(text) <= LONGEST_LITERAL else None


def _integer(obj: int) -> str | None:
    return repr(obj) if obj.bit_length() <= LONGEST_INTEGER else None


def _float(obj: float) -> str | None:
    return repr(obj) if math.isfinite(obj) else None


LITERALS: dict[type, Callable[[Any], str | None]] = {
    type(None): repr,
    bool: repr,
    int: _integer,
    float: _float,
    str: _bounded,
    bytes: _bounded,
    type(Ellipsis): lambda obj: "...",
}


def literal(obj: object) -> str | None:
    """Source text that evaluates to an equal object, exact to the bit, or None."""
    row = LITERALS.get(type(obj)) if id(type(obj)) in _LITERAL_TYPES else None
    return row(obj) if row is not None else None


# Membership is tested by id: a metaclass may define __hash__ and __eq__.
_LITERAL_TYPES = frozenset(map(id, LITERALS))

# Immutable types whose instances are embedded as they are (exact type only).
_EMBEDDED = frozenset(
    id(cls)
    for cls in (
        int, float, complex, str, bytes, range, type(NotImplemented),
        types.CodeType, re.Pattern, struct.Struct,
        decimal.Decimal, zoneinfo.ZoneInfo,
        datetime.date, datetime.timedelta, datetime.timezone,
        typing.TypeVar, typing.ParamSpec, typing.ForwardRef, type(typing.Optional), type(typing.Generator),
        type(typing.Tuple), type(typing.Callable),  # noqa: UP006
        type(dataclasses.MISSING), type(dataclasses.KW_ONLY), vars(dataclasses)["_FIELD_BASE"],
        torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme, torch.finfo, torch.iinfo,
        torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops._OpNamespace,
    )
)  # fmt: skip

# Immutable types written in Python (exact type only): embedded where the numbers in these slots are plain ones.
_OF_NUMBERS: dict[int, tuple[str, ...]] = {
    id(fractions.Fraction): ("_numerator", "_denominator"),
    id(uuid.UUID): ("int",),
}

Inside = Callable[[object], bool]
_CAPSULE: type = type(datetime.datetime_CAPI)


def _belongs_to_class(obj: Any, inside: Inside) -> bool:
    return not inside(obj.__objclass__)


def _is_free_builtin(obj: Any, inside: Inside) -> bool:
    """Functions of C modules, and class methods of outside classes; a method bound to an instance is no constant."""
    owner = obj.__self__
    if owner is None or type(owner) is _CAPSULE or raw.is_a(owner, types.ModuleType):
        return True
    return raw.is_a(owner, type) and not inside(owner)


def _is_outside(obj: object, inside: Inside) -> bool:
    return not inside(obj)


def is_module_namespace(obj: dict[str, Any]) -> bool:
    """The `__dict__` of an imported module, which is global whoever imported it."""
    name = dict.get(obj, "__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return module is not None and raw.instance_dict(module)[0] is obj


def _is_outside_class(obj: Any, inside: Inside) -> bool:
    return not raw.flags(obj) & raw.HEAP_TYPE or not inside(obj)


def _has_outside_class(obj: object, inside: Inside) -> bool:
    return not inside(type(obj))


def _is_member(obj: object, inside: Inside) -> bool:
    """Whether a class from outside has it already: one that the program makes is another one in every run."""
    names = raw.class_dict(type(obj))
    known = [*names.get("_member_map_", {}).values(), *names.get("_value2member_map_", {}).values()]
    return not inside(type(obj)) and any(obj is member for member in known)


# Types whose instances are constants under a condition; it also holds for subclasses.
_CONDITIONS: dict[int, Callable[[Any, Inside], bool]] = {
    id(type): _is_outside_class,
    id(types.FunctionType): _is_outside,
    id(types.CellType): _is_outside,
    id(types.ModuleType): _is_outside,
    id(functools._lru_cache_wrapper): _is_outside,
    id(types.BuiltinFunctionType): _is_free_builtin,
    id(types.MethodDescriptorType): _belongs_to_class,
    id(types.WrapperDescriptorType): _belongs_to_class,
    id(types.GetSetDescriptorType): _belongs_to_class,
    id(types.MemberDescriptorType): _belongs_to_class,
    id(types.ClassMethodDescriptorType): _belongs_to_class,
    id(enum.Enum): _is_member,
}
if (_numpy := sys.modules.get("numpy")) is not None:
    for _cls in (_numpy.number, _numpy.bool_, _numpy.dtype, _numpy.ufunc):
        _CONDITIONS[id(_cls)] = _has_outside_class


def is_constant(obj: object, inside: Inside) -> bool:
    """Is obj the same object in every run, so that the emitted code may hold it?"""
    cls = type(obj)
    if id(cls) in _EMBEDDED:
        return True
    if id(cls) in _OF_NUMBERS:
        return all(type(getattr(obj, name, None)) is int for name in _OF_NUMBERS[id(cls)])
    if cls is dict:
        return is_module_namespace(obj)  # type: ignore[arg-type]
    for step in raw.mro(cls):
        condition = _CONDITIONS.get(id(step))
        if condition is not None:
            return condition(obj, inside)
    # Enumerations of torch's C++ parts: pybind11 keeps the members of one under this name.
    return "__entries" in raw.class_dict(cls)
