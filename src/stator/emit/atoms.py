"""Constants: which objects are the same in every run, and which of them can be written down as literals."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import ipaddress
import math
import operator
import re
import struct
import sys
import types
import typing
import uuid
import zoneinfo

import torch

from . import raw

LONGEST_LITERAL = 120


def _bounded(obj: object) -> str | None:
    text = repr(obj)
    return text if len(text) <= LONGEST_LITERAL else None


def _integer(obj: int) -> str | None:
    # repr of a huge int is refused by CPython and slow to compile anyway.
    return repr(obj) if obj.bit_length() <= 128 else None


def _float(obj: float) -> str | None:
    return repr(obj) if math.isfinite(obj) else None


def _complex(obj: complex) -> str | None:
    # Only a+bj with positive finite parts reads back exactly: -0.0 gets lost in the sum.
    exact = math.isfinite(obj.real) and math.isfinite(obj.imag) and not str(obj.real).startswith("-") and not str(obj.imag).startswith("-")
    return repr(obj) if exact and obj.real else None


LITERALS: dict[type, typing.Callable[[typing.Any], str | None]] = {
    type(None): repr,
    bool: repr,
    int: _integer,
    float: _float,
    complex: _complex,
    str: _bounded,
    bytes: _bounded,
    type(Ellipsis): lambda obj: "...",
    type(NotImplemented): repr,
}

# Immutable types whose instances are embedded as they are (exact type only).
EMBEDDED: frozenset[int] = frozenset(
    id(cls)
    for cls in (
        int, float, complex, str, bytes, range,
        types.CodeType, re.Pattern, re.Match, struct.Struct,
        decimal.Decimal, fractions.Fraction, uuid.UUID, zoneinfo.ZoneInfo,
        datetime.date, datetime.timedelta, datetime.timezone,
        ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
        typing.TypeVar, typing.ParamSpec, typing.ForwardRef, type(typing.Any), type(typing.Optional), type(typing.List),
        torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme, torch.finfo, torch.iinfo,
        torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops._OpNamespace,
        type(operator.attrgetter.__get__) if hasattr(operator.attrgetter, "__get__") else range,
    )
)  # fmt: skip

# Descriptors and C functions belong to the class or module that defines them.
_OF_CLASS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)
