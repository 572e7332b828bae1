"""Which objects run code of the program when they die, alone or with what they hold."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from stator import _frames
from stator.code.resume import handler_of
from stator.frame import UNBOUND

MOST_HELD = 400  # objects that are looked at in one value
PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), BuiltinFunctionType, WrapperDescriptorType})
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
STANDINS: set[type] = set()  # stator's own, which lead to all that it knows; those that make them add theirs
OPAQUE = (type, ModuleType, torch.Tensor, CodeType, FrameType, TracebackType, weakref.ref, *SYMBOLS)


def ends_with_code(obj: Any) -> bool:
    """Whether code of the program may run when an object dies."""
    kind = type(obj)
    if kind is GeneratorType or kind is CoroutineType:
        return is_protected(obj.gi_frame if kind is GeneratorType else obj.cr_frame)
    if not _frames.is_heap_type(kind) or issubclass(kind, type):
        return False
    if _frames.type_lookup(kind, "__del__") is not UNBOUND:
        return True
    return _frames.type_lookup(kind, "__weakref__") is not UNBOUND and any(map(calls_back, weakref.getweakrefs(obj)))


def is_protected(frame: FrameType | None) -> bool:
    """Whether a suspended frame has a handler that sees its end."""
    return frame is not None and frame.f_lasti >= 0 and handler_of(frame.f_code, frame.f_lasti // 2) is not None


def calls_back(reference: Any) -> bool:
    """Whether the program, or a library, waits for the end of an object; stator and torch do so on their own behalf."""
    if not issubclass(type(reference), weakref.ref):  # a proxy asks the object
        return True
    callback = reference.__callback__
    if type(callback) is not FunctionType:
        return callback is not None
    home = callback.__module__
    return not (type(home) is str and home.startswith(("stator.", "torch.")))


def endings(value: Any) -> list[Any]:
    """The objects whose end runs code among a value and what it holds."""
    return [found for found in held_by([value]) if ends_with_code(found)]


def held_by(
    values: Iterable[Any], most: int = MOST_HELD, contents: Callable[[Any], list[Any]] = gc.get_referents
) -> Iterator[Any]:
    """Some values and what containers, instances, closures and suspended frames among them hold, up to a number."""
    waiting = deque(values)  # what lies near comes first
    seen: dict[int, Any] = {}
    while waiting and len(seen) < most:
        obj = waiting.popleft()
        kind = type(obj)
        if id(obj) in seen or kind in PLAIN or kind in STANDINS or issubclass(kind, OPAQUE):
            continue
        seen[id(obj)] = obj
        yield obj
        if kind is FunctionType:
            waiting += obj.__closure__ or ()
        elif issubclass(kind, BaseException):  # not the frames of its traceback
            waiting += [BaseException.__dict__[name].__get__(obj) for name in ("args", "__context__", "__dict__")]
        else:
            waiting += contents(obj)
