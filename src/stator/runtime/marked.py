"""Calls of functions that were marked: one opaque node, one call at capture, or another function instead."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from stator._frames import instance_dict
from stator.control.marks import (
    C_FUNCTIONS,
    CONSTANT,
    FUNCTIONS,
    IN_GRAPH,
    POLYFILL,
    Mark,
    mark_of,
    substituted_functions,
)
from stator.errors import Unsupported
from stator.frame import Frame, throw
from stator.guards import path as paths
from stator.guards.check import IS
from stator.native.callers import call_python
from stator.native.rows import STANDINS
from stator.runtime import pinning
from stator.runtime.compiling import not_compiling
from stator.runtime.entering import answer_frame
from stator.tensors.lowering import PLAIN
from stator.tensors.modes import default_device
from stator.tensors.recording_mode import RecordingMode
from stator.tensors.signals import UnsupportedOp
from stator.tensors.targets import Target
from stator.tensors.traced import TracedTensor
from stator.world.constants import CONSTANT_TYPES
from stator.world.door import is_free

Row = Callable[[Any, Frame, Any, Mark, list[Any], dict[str, Any]], Any]


def caller_of(function: Any) -> Any:
    """How a marked function is called by the program; the frames of those that native code calls: `replace_body`."""
    return call_marked if type(function) in FUNCTIONS and mark_of(function) is not None else None


def call_marked(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    mark = mark_of(function)
    if mark is None:
        return call_python(host, f, function, args, kwargs)
    pin(host, function)
    return ROWS[mark.kind](host, f, function, mark, args, kwargs or {})


def notice_substitutes() -> None:
    """Native code that calls a C function with a polyfill has to come back."""
    for function in substituted_functions():
        STANDINS[function] = call_marked


def replace_body(host: Any, f: Frame, function: Any) -> bool:
    """Lets the frame of a marked Python function do what the mark says; True if it has one."""
    mark = mark_of(function)
    if mark is None:
        return False
    if f.generator is not None:
        raise host.refuse("opaque-call", f"{function.__qualname__} is a generator", function=function.__qualname__)
    pin(host, function)
    row = ROWS[mark.kind]
    answer_frame(f, lambda frame, args, kwargs: row(host, frame, function, mark, args, kwargs))
    return True


def pin(host: Any, function: Any) -> None:
    """A mark belongs to one function object, not to all that share its code."""
    record = host.records.get(id(function))
    if record is not None and record.obj is function:
        host.guards.add(record.path, IS, function, host.origin())


# ---- allow_in_graph -------------------------------------------------------------------------------------------------


def is_opaque(function: Any) -> bool:
    """Whether calls of a function are one node."""
    mark = mark_of(function)
    return mark is not None and mark.kind == IN_GRAPH


class Opaque:
    """A function of the user as propagation runs it: on fake tensors, as if it ran for real."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with not_compiling():
            result = self.function(*args, **kwargs)
        if (odd := stranger(result, RESULTS)) is not None:
            raise UnsupportedOp(self.__qualname__, f"its result holds a {odd.__qualname__}", "opaque-call")
        return result


ARGUMENTS = frozenset({TracedTensor, bool, float, complex, slice, range, torch.Size, *PLAIN})
RESULTS = frozenset({bool, float, complex, torch.Size, *PLAIN} - {types.EllipsisType})


def stranger(value: Any, leaves: frozenset[type]) -> type | None:
    """The class of something that cannot go into or come out of a node."""
    kind = type(value)
    if kind in leaves or (leaves is RESULTS and issubclass(kind, torch.Tensor)):
        return None
    if kind is dict:
        if not all(type(key) in CONSTANT_TYPES for key in value):
            return kind
        value = value.values()
    elif kind not in (list, tuple) and not is_named_tuple(kind):
        return kind
    return next((odd for item in value if (odd := stranger(item, leaves)) is not None), None)


def is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and (hasattr(kind, "_fields") or kind.__module__ == "torch.return_types")


def call_in_graph(host: Any, f: Frame, function: Any, mark: Mark, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """One node that calls the function; what comes out is known from a run on fake tensors."""
    name = function.__qualname__
    odd = stranger([*args, *kwargs.values()], ARGUMENTS)
    if odd is not None:
        raise host.refuse("opaque-call", f"{name} is given a {odd.__qualname__}", function=name)
    if default_device() is not None:
        raise host.refuse("opaque-call", f"{name} runs under a default device", function=name)
    target = Target(Opaque(function), "call_function", function, function.__name__)
    target.opaque = target.unique = True
    known = pinning.constants(host)
    try:
        made = host.recorder.record(target, tuple(args), kwargs)
    except Unsupported as error:
        raise host.located(error) from None
    if host.counts_rounds and getattr(function, "__code__", None) is not f.code:
        pinning.note_opaque(host, f, known)
    return made


# ---- assume_constant_result -----------------------------------------------------------------------------------------


def call_once(host: Any, f: Frame, function: Any, mark: Mark, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The function runs now, in CPython; what it gives is the result from now on."""
    real = [real_value(host, function, arg) for arg in args]
    named = {name: real_value(host, function, arg) for name, arg in kwargs.items()}
    try:
        result = run_for_real(function, real, named)
    except Exception as error:
        return throw(f, error.with_traceback(None))
    if type(result) in CONSTANT_TYPES:
        return result
    host.guards.keep(result)  # perhaps nobody else does
    return host.enter(result, paths.const(result))


def run_for_real(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call in the middle of a capture that is no part of it."""
    mode = torch.overrides._pop_mode()
    try:
        if not isinstance(mode, RecordingMode):
            raise UnsupportedOp(function.__qualname__, "a torch function mode is active", "tensor-mode")
        with not_compiling():
            return function(*args, **kwargs)
    finally:
        torch.overrides._push_mode(mode)


def real_value(host: Any, function: Any, value: Any) -> Any:
    """The value outside that an argument stands for."""
    kind = type(value)
    if kind in CONSTANT_TYPES:
        return value
    if kind in (list, tuple):
        return kind(real_value(host, function, item) for item in value)
    if kind is dict:
        return {real_value(host, function, key): real_value(host, function, item) for key, item in value.items()}
    if issubclass(type(value), type) and not host.is_inside_type(value):
        return value
    if kind is types.BuiltinFunctionType and is_free(value.__self__):
        return value
    record = host.records.get(id(value))
    if record is not None and record.obj is value and not is_changed(host, record):
        host.guards.add(record.path, IS, value, host.origin())
        return value
    name = function.__qualname__
    what = "a tensor" if kind is TracedTensor else f"a {kind.__qualname__} that was made or changed while capturing"
    raise host.refuse("constant-arguments", f"{name} is given {what}", function=name)


def is_changed(host: Any, record: Any) -> bool:
    """Whether the program wrote to an outside object."""
    attributes = instance_dict(record.obj)
    namespace = host.namespaces.get(id(attributes)) if attributes is not None else None
    return id(record.obj) in host.touched or (namespace is not None and bool(namespace.changes()))


# ---- substitute_in_graph --------------------------------------------------------------------------------------------


def call_polyfill(host: Any, f: Frame, function: Any, mark: Mark, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The Python function in place of the original."""
    if mark.folds and type(function) in C_FUNCTIONS:
        values = [*args, *kwargs.values()]
        if all(type(value) in CONSTANT_TYPES for value in values):
            return call_python(host, f, function, args, kwargs)
    return host.call(f, mark.polyfill, args, kwargs or None)


ROWS: dict[str, Row] = {IN_GRAPH: call_in_graph, CONSTANT: call_once, POLYFILL: call_polyfill}
