"""Calls, attributes, functions, classes and imports."""

from __future__ import annotations

import operator
from types import FunctionType
from typing import Any

from stator.errors import StatorError
from stator.eval.methods import setter
from stator.eval.opcodes import op
from stator.eval.ops_build import take
from stator.eval.ops_names import lookup
from stator.frame import RAISED, UNBOUND, Frame, Raised, native, throw

SETITEM = operator.setitem


@op("LOAD_ATTR")
def load_attr(f: Frame, name: str) -> None:
    f.tail = f.lasti
    f.finish, f.kept = None, ()
    f.stack[-1] = f.world.read_attr(f, f.stack[-1], name)
    f.called = None


@op("LOAD_METHOD")
def load_method(f: Frame, name: str) -> None:
    function, receiver = f.world.load_method(f, f.stack[-1], name)
    if receiver is UNBOUND:
        f.stack[-1:] = [UNBOUND, function]
    else:
        f.stack[-1:] = [function, receiver]


@op("STORE_ATTR")
def store_attr(f: Frame, name: str) -> None:
    value, target = take(f, 2)
    store(f, target, name, value)


@op("DELETE_ATTR")
def delete_attr(f: Frame, name: str) -> None:
    store(f, f.stack.pop(), name, UNBOUND)


def store(f: Frame, target: Any, name: str, value: Any) -> None:
    f.called = setter(type(target), name, value is UNBOUND)
    f.finish, f.kept = None, ()
    f.world.store_attr(f, target, name, value)
    f.called = None


@op("KW_NAMES")
def kw_names(f: Frame, names: tuple[str, ...]) -> None:
    f.kwnames = names


@op("CALL")
def call(f: Frame, count: int) -> None:
    stack = f.stack
    base = len(stack) - count - 2
    first = stack[base]
    if first is UNBOUND:
        function, args = stack[base + 1], stack[base + 2 :]
    else:
        function, args = first, stack[base + 1 :]
    del stack[base:]
    f.tail = f.lasti
    f.finish, f.kept = None, ()
    names = f.kwnames
    kwargs = None
    if names:
        f.kwnames = ()
        split = len(args) - len(names)
        kwargs = dict(zip(names, args[split:], strict=False))
        del args[split:]
    try:
        stack.append(f.world.call(f, function, args, kwargs))
    except (StatorError, Raised) as error:
        if error is not RAISED or isinstance(f.error, StatorError):
            f.callee = function
        raise


@op("CALL_FUNCTION_EX")
def call_function_ex(f: Frame, flags: int) -> None:
    kwargs = f.stack.pop() if flags & 1 else None
    args = f.stack.pop()
    function = f.stack.pop()
    if f.stack and f.stack[-1] is UNBOUND:
        del f.stack[-1]
    if type(args) is not tuple:
        if not hasattr(type(args), "__iter__") and not hasattr(type(args), "__getitem__"):
            name = type(args).__name__
            throw(f, TypeError(f"{called_name(function)} argument after * must be an iterable, not {name}"))
        args = native(f, tuple, f.world.whole(args))
    if kwargs is not None and type(kwargs) is not dict:
        kwargs = native(f, dict, kwargs)
    if kwargs and not all(isinstance(name, str) for name in kwargs):
        throw(f, TypeError("keywords must be strings"))
    f.tail = f.lasti
    f.finish, f.kept = None, ()
    f.stack.append(f.world.call(f, function, list(args), kwargs))


def called_name(function: Any) -> str:
    """What CPython calls a function in messages about its arguments."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if name is None:
        return str(function)
    return f"{name}()" if module is None or module == "builtins" else f"{module}.{name}()"


@op("MAKE_FUNCTION")
def make_function(f: Frame, flags: int) -> None:
    code = f.stack.pop()
    closure = f.stack.pop() if flags & 8 else None
    annotations = f.stack.pop() if flags & 4 else None
    kwdefaults = f.stack.pop() if flags & 2 else None
    defaults = f.stack.pop() if flags & 1 else None
    function = FunctionType(code, f.globals, code.co_name, defaults, closure)
    function.__qualname__ = code.co_qualname
    if kwdefaults is not None:
        function.__kwdefaults__ = kwdefaults
    if annotations is not None:
        pairs = annotations
        function.__annotations__ = dict(zip(pairs[::2], pairs[1::2], strict=False)) if type(pairs) is tuple else pairs
    module = f.world.namespace_get(f.globals, "__name__")
    if module is not UNBOUND:
        function.__module__ = module
    f.world.inside_function(function)
    if closure:
        f.world.know_closure(f.function)  # cells that the new function shares have their place there
    f.stack.append(function)


@op("LOAD_BUILD_CLASS")
def load_build_class(f: Frame, arg: Any) -> None:
    value = lookup(f, f.builtins, "__build_class__")
    if value is UNBOUND:
        throw(f, NameError("__build_class__ not found"))
    f.stack.append(value)


@op("IMPORT_NAME")
def import_name(f: Frame, name: str) -> None:
    level, fromlist = take(f, 2)
    f.stack.append(f.world.import_name(f, name, fromlist, level))


@op("IMPORT_FROM")
def import_from(f: Frame, name: str) -> None:
    f.stack.append(f.world.import_from(f, f.stack[-1], name))


@op("IMPORT_STAR")
def import_star(f: Frame, arg: Any) -> None:
    f.world.import_star(f, f.stack.pop())


@op("SETUP_ANNOTATIONS")
def setup_annotations(f: Frame, arg: Any) -> None:
    namespace = f.names
    if type(namespace) is dict:
        if f.world.namespace_get(namespace, "__annotations__") is UNBOUND:
            f.world.namespace_set(namespace, "__annotations__", {})
    elif f.world.mapping_get(f, namespace, "__annotations__") is UNBOUND:
        native(f, SETITEM, namespace, "__annotations__", {})


@op("PRINT_EXPR")
def print_expr(f: Frame, arg: Any) -> None:
    import sys

    f.world.call(f, sys.displayhook, [f.stack.pop()], None)
