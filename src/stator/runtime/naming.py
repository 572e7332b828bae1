"""What is called, and what its values are called, in the words of the program: for reports."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from stator import _frames
from stator.code.hidden import is_module_call
from stator.native.callers import CO_VARARGS


def shown(function: Any) -> Any:
    """The function that people mean: of a call of a module, its `forward`."""
    if type(function) is types.MethodType and _is_module_call(function.__func__):
        module = function.__self__
        forward = vars(module).get("forward") or _frames.type_lookup(type(module), "forward")
        if type(forward) is types.FunctionType and "forward" not in vars(module):
            return types.MethodType(forward, module)
        if type(forward) in (types.FunctionType, types.MethodType):
            return forward
    return function


def argument_names(function: Any, count: int, keywords: Sequence[str]) -> tuple[str, ...]:
    """The names of the parameters that take the positional arguments, then those of the keywords."""
    bound = type(function) is not types.FunctionType
    function = function.__func__ if type(function) is types.MethodType else function
    if type(function) is not types.FunctionType:
        function = _frames.type_lookup(type(function), "__call__")
    code = getattr(function, "__code__", None)
    if type(code) is not types.CodeType:
        return (*(f"arg{i}" for i in range(count)), *keywords)
    names = list(code.co_varnames[bound : code.co_argcount])
    if code.co_flags & CO_VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        names += [f"{rest}[{i}]" for i in range(count - len(names))]
    names += [f"arg{i}" for i in range(len(names), count)]  # more than it takes: the call fails
    return (*names[:count], *keywords)


def _is_module_call(function: Any) -> bool:
    return type(function) is types.FunctionType and is_module_call(function.__code__)


def carried_names(pieces: Sequence[Any], results: int, line: int) -> dict[int, str]:
    """What goes over a break, by number; variables that several frames have tell the function, too."""
    named = list(_variables(pieces))
    frames = Counter(name for name, _ in {(name, part.qualname) for name, part, _ in named})
    found = {number: f"<value in {part.qualname}>" for part in pieces for number in part.stack}
    found |= dict.fromkeys(range(results), f"<value on line {line}>")
    for name, part, number in named:
        found[number] = name if frames[name] == 1 else f"{name}@{part.qualname}"
    return found


def _variables(pieces: Sequence[Any]) -> Iterator[tuple[str, Any, int]]:
    for part in pieces:
        for name, number in zip(part.names, part.items, strict=False):
            yield name, part, number
        for name, number in zip(part.code.co_freevars, part.closure, strict=False):
            yield name, part, number
