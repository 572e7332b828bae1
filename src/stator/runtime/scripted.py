"""Calls of functions that torch.jit.script has compiled: the Python functions they were made of are captured.

Not directly: what cannot be captured in there breaks at the call. Then the compiled function itself runs, which raises
and prints in words of its own.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from stator.frame import Frame
from stator.guards.check import IS
from stator.native.callers import CALLERS, call_python
from stator.runtime.symbolic_host import decayed
from stator.shapes.floats import TracedFloat, calculated
from stator.shapes.scalar import TracedInt
from stator.tensors.traced import TracedTensor

# By type in a signature: the types of arguments that are taken as they are.
_TAKEN: dict[str, tuple[type, ...]] = {
    "Tensor": (TracedTensor,),
    "int": (int, TracedInt),
    "float": (float, TracedFloat),
    "bool": (bool,),
    "str": (str,),
}

LARGE = 2**63  # ints from here on are left to TorchScript
_OTHER = object()
_TELLING = frozenset({"is_scripting", "is_tracing", "print"})  # names of what is another thing in Python


def call_scripted(host: Any, f: Frame, scripted: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """Only if Python does the same with these arguments."""
    function = vars(scripted).get("_torchdynamo_inline")
    given = None if type(function) is not types.FunctionType else _bound(function, args, kwargs or {})
    record = host.records.get(id(scripted))
    is_same = vars(scripted).get("__name__") == "ScriptFunction"  # a trace took one of the ways through the function
    taken = None
    if given is not None and record is not None and is_same:
        taken = _taken(scripted, given) or _taken(scripted, decayed(host, given, {}))
    if taken is None or _tells(function, 3):
        name = getattr(function, "__qualname__", "a function")
        raise host.refuse("native-unknown", f"call of {name}, compiled by torch.jit", function=name, type="torch.jit")
    host.guards.add(record.path, IS, scripted, host.origin())
    f.tail = -1  # the frame is not that of this call
    return call_python(host, f, host.enter_const(function), [], taken)


def _bound(function: types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by name, with defaults; None if they do not fit."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    positional = dict(zip(names, args, strict=False))
    if len(args) > len(names) or positional.keys() & kwargs.keys() or code.co_kwonlyargcount:
        return None
    given |= positional | kwargs
    return given if given.keys() == set(names) else None


def _taken(scripted: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments as the compiled function has them, None if it converts them in other ways.

    It has lists of its own, so none may come back: that would be another one.
    """
    arguments, returns = scripted.schema.arguments, scripted.schema.returns
    if list in map(type, given.values()) and not all(map(_holds_no_list, (result.type for result in returns))):
        return None
    if {argument.name for argument in arguments} != given.keys():
        return None
    taken = {argument.name: _converted(argument.type, given[argument.name]) for argument in arguments}
    return None if any(value is _OTHER for value in taken.values()) else taken


def _holds_no_list(kind: Any) -> bool:
    name = kind.kind()
    return all(map(_holds_no_list, kind.elements())) if name == "TupleType" else name == "TensorType"


def _converted(kind: Any, value: Any) -> Any:
    """A value as one of this type, `_OTHER` if it may not become one. Lists become tuples where those are due."""
    name = kind.kind()
    if name == "OptionalType":
        return None if value is None else _converted(kind.getElementType(), value)
    if name == "TupleType" and type(value) in (tuple, list) and len(value) == len(kind.elements()):
        return _all_converted(kind.elements(), value, tuple)
    if name == "ListType" and type(value) is list and str(kind.getElementType()) in _TAKEN:
        return _all_converted([kind.getElementType()] * len(value), value, list)
    if name == "FloatType" and type(value) in (TracedInt, TracedFloat):
        return calculated(float, value)
    if name == "FloatType" and type(value) is int and abs(value) < LARGE:
        return float(value)
    return value if type(value) in _TAKEN.get(str(kind), ()) else _OTHER


def _all_converted(kinds: list[Any], items: Any, made: type) -> Any:
    found = list(map(_converted, kinds, items))
    return _OTHER if any(item is _OTHER for item in found) else made(found)


def _tells(function: types.FunctionType, depth: int) -> bool:
    """Whether the function, or one of those it names, can tell that it is not compiled."""
    names = function.__code__.co_names
    if not _TELLING.isdisjoint(names):
        return True
    named = [function.__globals__.get(name) for name in names]
    own = [found for found in named if type(found) is types.FunctionType and not found.__module__.startswith("torch.")]
    return bool(own) if not depth else any(_tells(found, depth - 1) for found in own)


CALLERS[id(torch.jit.ScriptFunction)] = call_scripted
