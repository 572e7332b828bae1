"""Equality of constants as the EQ check means it: exact builtin types, floats by bits, nothing of the user's runs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import torch

MAX_DEPTH = 32


def _bits(value: float) -> bytes:
    return struct.pack("d", value)


def _same_float(left: float, right: float, _: int) -> bool:
    return _bits(left) == _bits(right)


def _same_complex(left: complex, right: complex, _: int) -> bool:
    return _bits(left.real) == _bits(right.real) and _bits(left.imag) == _bits(right.imag)


def _same_builtin(left: Any, right: Any, _: int) -> bool:
    return bool(left == right)


def _same_items(left: Any, right: Any, depth: int) -> bool:
    return (
        depth > 0 and len(left) == len(right) and all(same(a, b, depth - 1) for a, b in zip(left, right, strict=True))
    )


def _same_span(left: Any, right: Any, depth: int) -> bool:
    return depth > 0 and all(
        same(getattr(left, part), getattr(right, part), depth - 1) for part in ("start", "stop", "step")
    )


SAME: dict[type, Callable[[Any, Any, int], bool]] = {
    float: _same_float,
    complex: _same_complex,
    int: _same_builtin,
    bool: _same_builtin,
    str: _same_builtin,
    bytes: _same_builtin,
    torch.device: _same_builtin,
    tuple: _same_items,
    torch.Size: _same_items,
    frozenset: _same_items,  # in the same order: a program can tell the difference
    slice: _same_span,
    range: _same_span,
}


def same(value: Any, key: Any, depth: int = MAX_DEPTH) -> bool:
    """True if `value` is the constant `key`: identical, or of the same exact builtin type and equal."""
    if value is key:
        return True
    compare = SAME.get(type(key))
    return compare is not None and type(value) is type(key) and compare(value, key, depth)


def is_constant(value: Any, depth: int = MAX_DEPTH) -> bool:
    """True if EQ can recognise an equal but not identical object as this constant."""
    kind = type(value)
    if kind not in SAME:
        return value is None or value is ... or value is NotImplemented
    if kind is slice:
        return depth > 0 and all(is_constant(part, depth - 1) for part in (value.start, value.stop, value.step))
    if kind is tuple or kind is frozenset or kind is torch.Size:
        return depth > 0 and all(is_constant(part, depth - 1) for part in value)
    return True


PLAIN = frozenset((str, int, float, bool, bytes, complex, type(None), type(...), type(NotImplemented), torch.device))


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """True if comparing the value with another plain one runs no user code."""
    kind = type(value)
    if kind in PLAIN:
        return True
    return (kind is tuple or kind is frozenset) and depth > 0 and all(is_plain(part, depth - 1) for part in value)


def is_value(value: Any, depth: int = MAX_DEPTH) -> bool:
    """The same with types and layouts of tensors, of which there is one object each, and with sizes."""
    kind = type(value)
    if kind in PLAIN or kind in _ONE_OF_EACH:
        return True
    return kind in _IN_PARTS and depth > 0 and all(is_value(part, depth - 1) for part in value)


def is_comparable(value: Any, depth: int = MAX_DEPTH) -> bool:
    """True if comparing the value with another such one runs no user code: plain, or equal to itself alone."""
    kind = type(value)
    if kind in PLAIN or kind is range or kind is BuiltinFunctionType or _by_identity(kind):
        return True
    return kind in _IN_PARTS and depth > 0 and all(is_comparable(part, depth - 1) for part in value)


_ONE_OF_EACH = frozenset((torch.dtype, torch.layout, torch.memory_format))
_IN_PARTS = frozenset((tuple, frozenset, torch.Size))
_COMPARISONS = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))


def _by_identity(kind: type) -> bool:
    return all(base is object or _COMPARISONS.isdisjoint(_names(base)) for base in _bases(kind))


_names, _bases = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__
