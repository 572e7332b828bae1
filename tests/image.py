"""Images: flat descriptions of an object graph that can be compared long after the objects changed.

A row says what was found where: `Row(path, kind, value)`. An object met again is a row that names the path it was
first met by, so two images are equal only if types, values, order and aliasing are.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import struct
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

TORCH = str(Path(torch.__file__).parent)
STATOR = str(Path(__file__).parent.parent / "src" / "stator")
HIDDEN = (TORCH, STATOR, str(Path(__file__).parent / "harness.py"), "<stator")

FOR_C = frozenset({"__vectorcalloffset__", "__weaklistoffset__", "__dictoffset__"})  # `partial` shows pointers there
TORCH_MARKS = ("_dynamo_", "_is_torch_compile")  # what torch.compile leaves on user objects

Parts = tuple[Any, list[tuple[str, Any]]]


class Row(NamedTuple):
    path: str
    kind: str
    value: Any


@dataclass
class TensorValue:
    """Metadata and data of a tensor at one moment."""

    meta: dict[str, Any]
    data: torch.Tensor | None

    def differs(self, other: TensorValue, tolerance: float | None, strides: bool) -> str | None:
        for name, value in self.meta.items():
            if value != other.meta[name] and (strides or name != "strides"):
                return f"{name} {value} instead of {other.meta[name]}"
        if self.data is None or other.data is None:
            return None if self.data is other.data else "data missing"
        exact = tolerance is None or not self.data.dtype.is_floating_point and not self.data.dtype.is_complex
        rtol = atol = 0.0 if exact else tolerance
        try:
            torch.testing.assert_close(self.data, other.data, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return str(error)
        return "sign of zero" if exact and _negative_zeros(self.data, other.data) else None


def _negative_zeros(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype.is_floating_point and not torch.equal(torch.signbit(left), torch.signbit(right))


@dataclass
class Image:
    """Rows in the order of a depth-first walk."""

    rows: list[Row] = field(default_factory=list)

    def difference(self, other: Image, tolerance: float | None = None, strides: bool = True) -> str | None:
        """What differs first, as a sentence (`self` is what came out, `other` what should have), or None."""
        for mine, theirs in zip(self.rows, other.rows, strict=False):
            if mine.path != theirs.path:
                return f"{mine.path} where {theirs.path} should be"
            if mine.kind != theirs.kind:
                return f"{mine.path}: {mine.kind} {mine.value!r} instead of {theirs.kind} {theirs.value!r}"
            if isinstance(mine.value, TensorValue):
                if what := mine.value.differs(theirs.value, tolerance, strides):
                    return f"{mine.path}: {what}"
            elif mine.value != theirs.value:
                return f"{mine.path}: {mine.kind} {mine.value!r} instead of {theirs.value!r}"
        if len(self.rows) != len(other.rows):
            longer, word = (self, "additional") if len(self.rows) > len(other.rows) else (other, "missing")
            return f"{longer.rows[min(len(self.rows), len(other.rows))].path}: {word}"
        return None


def image(**roots: Any) -> Image:
    """The image of everything reachable from the roots, in their order."""
    result, seen, storages = Image(), {}, {}  # type: ignore[var-annotated]
    keep = []  # ids are only unique while objects live
    stack = [(name, value) for name, value in reversed(roots.items())]
    while stack:
        path, value = stack.pop()
        if (atom := _atom(value)) is not None:
            result.rows.append(Row(path, *atom))
            continue
        if id(value) in seen:
            result.rows.append(Row(path, "same as", seen[id(value)]))
            continue
        seen[id(value)] = path
        keep.append(value)
        payload, children = _tensor(value, path, storages) if isinstance(value, torch.Tensor) else _parts(value)
        result.rows.append(Row(path, name_of(type(value)), payload))
        keep.append(children)
        stack += [(path + label, child) for label, child in reversed(children)]
    return result


def name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_heap_type(value: Any) -> bool:
    """Whether a class was made at run time; a function counts as such."""
    return not isinstance(value, type) or bool(value.__flags__ & (1 << 9))


def _importable(value: Any) -> bool:
    """Whether the qualified name of a class or function leads back to it."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


# Values without an identity that matters.
_ATOMS: dict[type, Callable[[Any], Any]] = {
    type(None): repr,
    type(Ellipsis): repr,
    type(NotImplemented): repr,
    bool: repr,
    int: repr,
    float: lambda value: (struct.pack("d", value), repr(value)),
    complex: lambda value: (struct.pack("dd", value.real, value.imag), repr(value)),
    str: str,
    bytes: bytes,
    range: repr,
    torch.dtype: repr,
    torch.device: repr,
    torch.layout: repr,
    torch.memory_format: repr,
    types.CodeType: lambda code: code,
    types.ModuleType: lambda module: module.__name__,
    re.Pattern: repr,
    type(len): lambda fn: fn.__qualname__ if isinstance(fn.__self__, (types.ModuleType, type(None))) else None,
}


def _atom(value: Any) -> tuple[str, Any] | None:
    """Kind and value of something described by its value alone."""
    cls = type(value)
    if (describe := _ATOMS.get(cls)) is not None:
        described = describe(value)
        return None if described is None else (name_of(cls), described)
    if cls in (tuple, frozenset) and all(map(_atom, value)):
        items = [_atom(item) for item in value]
        return name_of(cls), items if cls is tuple else sorted(items, key=repr)
    if isinstance(value, enum.Enum):
        return name_of(cls), value.name
    if isinstance(value, (type, types.FunctionType)) and (_importable(value) or not _is_heap_type(value)):
        return name_of(cls), f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType)):
        return name_of(cls), value.__qualname__
    return None


def _tensor(value: torch.Tensor, path: str, storages: dict[int, str]) -> Parts:
    plain = value.detach()
    meta = {
        "dtype": value.dtype,
        "device": value.device,
        "shape": tuple(value.shape),
        "requires_grad": value.requires_grad,
        "is_leaf": value.is_leaf,
        "has grad_fn": value.grad_fn is not None,
        "conj/neg": (value.is_conj(), value.is_neg()),
    }
    data = None
    if value.layout is torch.strided and value.device.type != "meta":
        storage = value.untyped_storage()
        meta["strides"] = tuple(value.stride())
        meta["storage offset"] = value.storage_offset()
        # Empty storages all look alike; others are named by the tensor that showed them first.
        meta["storage of"] = storages.setdefault(storage.data_ptr(), path) if storage.nbytes() else None
        data = plain.resolve_conj().resolve_neg().clone()
    elif value.layout is not torch.strided:
        data = plain.to_dense()
    children = [(".grad", value.grad)] if value.is_leaf and value.grad is not None else []
    return TensorValue(meta, data), children + _attributes(value)


def _items(values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"[{index}]", value) for index, value in enumerate(values)]


def _mapping(value: Any) -> list[tuple[str, Any]]:
    kind = next(kind for kind in (collections.OrderedDict, dict, types.MappingProxyType) if isinstance(value, kind))
    pairs = list(kind.items(value))
    return [row for i, (k, v) in enumerate(pairs) for row in ((f".key({i})", k), (f"[{k!r:.40}]", v))]


def _set(value: Any) -> list[tuple[str, Any]]:
    items = list(frozenset.__iter__(value) if isinstance(value, frozenset) else set.__iter__(value))
    if all(_atom(item) for item in items):
        items.sort(key=lambda item: (name_of(type(item)), repr(item)))
    return _items(items)


def _exception(value: BaseException) -> Parts:
    names = ("args", "__cause__", "__context__")
    children: list[tuple[str, Any]] = [(f".{name}", getattr(value, name)) for name in names]
    for name in getattr(type(value), "__match_args__", ()) or ():
        children.append((f".{name}", getattr(value, name, None)))
    payload = {"message": str(value), "suppress": value.__suppress_context__, "traceback": user_frames(value)}
    return payload, children


def user_frames(error: BaseException) -> list[tuple[str, str, int]]:
    """File, function and line of the traceback entries that belong to the program."""
    rows, entry = [], error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not code.co_filename.startswith(HIDDEN):
            rows.append((code.co_filename, code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    return rows


def _class(value: type) -> Parts:
    hidden = {"__dict__", "__weakref__", "__static_attributes__", "_abc_impl", "__subclasshook__"}
    rows = [(f".{name}", item) for name, item in value.__dict__.items() if name not in hidden]
    return f"{value.__module__}.{value.__qualname__}", [(".__bases__", value.__bases__), *rows]


def _function(value: types.FunctionType) -> Parts:
    names = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__doc__", "__annotations__", "__dict__")
    return value.__qualname__, [(f".{name}", getattr(value, name)) for name in names]


def _cell(value: types.CellType) -> Parts:
    try:
        return None, [(".cell_contents", value.cell_contents)]
    except ValueError:
        return "empty", []


def _named(*names: str) -> Callable[[Any], Parts]:
    return lambda value: (None, [(f".{name}", getattr(value, name)) for name in names])


# What instances of a type and its subclasses are made of, besides attributes; the first row that fits counts.
_PARTS: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    (BaseException, _exception),
    (type, _class),
    (types.FunctionType, _function),
    (types.CellType, _cell),
    ((types.MethodType, types.MethodWrapperType), _named("__name__", "__self__")),
    ((staticmethod, classmethod), _named("__func__")),
    (property, _named("fget", "fset", "fdel")),
    (functools.partial, _named("func", "args", "keywords")),
    (type(len), _named("__name__", "__self__")),
    (weakref.ref, lambda value: (None, [("()", value())])),
    (collections.defaultdict, lambda value: (None, [(".default_factory", value.default_factory), *_mapping(value)])),
    ((dict, types.MappingProxyType), lambda value: (None, _mapping(value))),
    (collections.deque, lambda value: (value.maxlen, _items(value))),
    ((list, tuple), lambda value: (None, _items(_raw(value)))),
    ((set, frozenset), lambda value: (None, _set(value))),
    ((str, bytes, bytearray), lambda value: (bytes(value) if not isinstance(value, str) else str.__str__(value), [])),
    (int, lambda value: (int.__repr__(value), [])),
    (float, lambda value: (struct.pack("d", value), [])),
    (slice, _named("start", "stop", "step")),
    (torch.Generator, lambda value: (bytes(value.get_state().tolist()), [])),
    (types.GeneratorType, lambda value: (value.__qualname__, [])),
)


def _raw(value: Any) -> list[Any]:
    """Elements of a list or tuple, whatever its subclass says."""
    return list((list if isinstance(value, list) else tuple).__iter__(value))


def _parts(value: Any) -> Parts:
    """Payload and labelled children of an object."""
    for kind, split in _PARTS:
        if isinstance(value, kind):
            payload, children = split(value)
            skip = isinstance(value, (type, types.FunctionType, property, staticmethod, classmethod))
            return payload, children if skip else children + _attributes(value)
    attributes = _attributes(value)
    if any(label != ".__class__" for label, _ in attributes) or type(value) is object:
        return None, attributes
    try:
        return None, [(".reduced", value.__reduce_ex__(4)), *attributes]
    except Exception:
        return re.sub(r"0x[0-9a-f]+", "0x…", repr(value)), []


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Instance dict and slots, and the class itself where it was made by the program."""
    rows: list[tuple[str, Any]] = []
    if _is_heap_type(type(value)) and not _importable(type(value)):
        rows.append((".__class__", type(value)))
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = {}
    rows += [(f".{name}", item) for name, item in attributes.items() if not name.startswith(TORCH_MARKS)]
    for cls in type(value).__mro__:
        for name, member in cls.__dict__.items():
            if isinstance(member, types.MemberDescriptorType) and _is_heap_type(cls) and name not in FOR_C:
                try:
                    rows.append((f".{name}", member.__get__(value)))
                except AttributeError:
                    rows.append((f".{name}", "<unset>"))
    return rows
