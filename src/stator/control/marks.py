"""Functions that capture treats in a way of their own: put into the graph, called once, or replaced."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stator.errors import InvalidArgument, InvalidOptions

Function = Callable[..., Any]

IN_GRAPH = "in-graph"
CONSTANT = "constant"
POLYFILL = "polyfill"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a call of the function means while capturing."""

    kind: str
    polyfill: Any = None
    folds: bool = False  # with constant arguments the original may be called


C_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
FUNCTIONS = (types.FunctionType, *C_FUNCTIONS)

_marks: dict[int, tuple[Callable[[], Any], Mark]] = {}
_substituted: list[Any] = []  # C functions with a polyfill, in the order they were registered


def _add(function: Any, mark: Mark) -> None:
    """Marks by identity, without keeping the function alive where that is possible."""
    key = id(function)
    try:
        forget = functools.partial(_marks.pop, key)  # in C: no interruption
        reference: Callable[[], Any] = weakref.ref(function, forget)
    except TypeError:
        reference = lambda: function  # noqa: E731
    _marks[key] = reference, mark


def mark_of(function: Any) -> Mark | None:
    """The mark of a function, made here or by torch."""
    known = _marks.get(id(function))
    if known is not None and known[0]() is function:
        return known[1]
    return _torch_mark(function)


def _function(what: str, fn: Any) -> Any:
    if not isinstance(fn, FUNCTIONS):
        raise InvalidArgument(f"{what} takes a function, got {fn!r:.60} ({type(fn).__name__})")
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Makes each call of a function one node of the graph: it is not captured, but run on fake tensors for metadata.

    It takes and returns tensors, constants, and lists, tuples and dicts of them; every tensor it uses has to be an
    argument, and it must do the same each time. A list or tuple of functions gives a list of them.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    _add(_function("allow_in_graph", fn), Mark(IN_GRAPH))
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Lets capture call a function for real and keep the result in the compiled code, without a guard."""
    _add(_function("assume_constant_result", fn), Mark(CONSTANT))
    return fn


def substitute_in_graph(
    original_fn: Function, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Function], Function]:
    """Decorates a Python function that is captured in place of `original_fn`, for the rest of the process.

    Args:
        original_fn: usually a function made in C. Outside of captures, the decorated function is this one.
        can_constant_fold_through: with constant arguments the original itself may be called while capturing.
        skip_signature_check: do not compare the parameters of both.
    """
    _function("substitute_in_graph", original_fn)

    def register(polyfill: Function) -> Function:
        if not isinstance(polyfill, types.FunctionType):
            raise InvalidArgument(f"a substitute has to be a Python function, got {polyfill!r:.60}")
        if not skip_signature_check:
            _compare_signatures(original_fn, polyfill)
        known = mark_of(original_fn)
        if known is not None and known.kind == POLYFILL:
            raise InvalidOptions(f"{original_fn!r:.60} has a substitute already: {known.polyfill!r:.60}")

        @functools.wraps(polyfill)
        def substituted(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        mark = Mark(POLYFILL, polyfill, can_constant_fold_through)
        _add(original_fn, mark)
        _add(substituted, mark)
        if isinstance(original_fn, C_FUNCTIONS):
            _substituted.append(original_fn)
        return substituted

    return register


# The frame of what `substitute_in_graph` returns stands for the polyfill.
SUBSTITUTED_CODE: types.CodeType = next(
    constant
    for outer in substitute_in_graph.__code__.co_consts
    if isinstance(outer, types.CodeType)
    for constant in outer.co_consts
    if isinstance(constant, types.CodeType)
)


def _compare_signatures(original: Any, polyfill: Any) -> None:
    """Parameters have to agree by name, order and default; what takes anything agrees with everything."""
    try:
        wanted = inspect.signature(original)
    except ValueError:  # many C functions do not tell
        return
    given = inspect.signature(polyfill)
    shapes = _shape(wanted), _shape(given)
    if shapes[0] != shapes[1] and ANYTHING not in shapes:
        raise InvalidArgument(
            f"{polyfill.__qualname__}{given} cannot stand for {original.__qualname__}{wanted}: parameters differ"
        )


def _shape(signature: inspect.Signature) -> tuple[Any, ...]:
    """What callers can tell apart; names of `*args` and `**kwargs` are not among it."""
    named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    positional = tuple(p.name for p in named if p.kind != p.KEYWORD_ONLY)
    keywords = frozenset(p.name for p in named if p.kind == p.KEYWORD_ONLY)
    return positional, keywords, {p.name: p.default for p in named}


ANYTHING = _shape(inspect.signature(lambda *args, **kwargs: None))


def substituted_functions() -> Iterator[Any]:
    """C functions with a polyfill, registered here or with torch."""
    yield from _substituted
    yield from (function for function in _torch_polyfills() if isinstance(function, C_FUNCTIONS))


# ---- marks that torch made: read only where `torch._dynamo` is loaded, and never for torch's own functions ---------


def _torch_mark(function: Any) -> Mark | None:
    if type(function) not in FUNCTIONS or str(getattr(function, "__module__", "")).startswith("torch."):
        return None
    if type(function) is types.FunctionType and function.__dict__.get("_dynamo_marked_constant"):
        return Mark(CONSTANT)
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    if rules is None:
        return None
    address = id(function)
    if address in _ids(rules, "_allowed_callable_ids") and address not in _ids(rules, "_nonstrict_trace_callable_ids"):
        return Mark(IN_GRAPH)
    handler = _torch_polyfills().get(function)
    if handler is None:
        return None
    return Mark(POLYFILL, handler.__torch_dynamo_polyfill__, bool(handler.__torch_dynamo_can_constant_fold_through__))


def _ids(rules: Any, name: str) -> set[int]:
    """One of torch's sets of function ids, empty before it is first used."""
    return getattr(getattr(rules, name, None), "function_ids", None) or set()


_polyfills: tuple[int, dict[Any, Any]] = 0, {}  # how many torch has, and the users' among them


def _torch_polyfills() -> dict[Any, Any]:
    """Polyfills that users registered with torch; torch's own ones are for what stator runs natively."""
    global _polyfills
    module: Any = sys.modules.get("torch._dynamo.variables.functions")
    kind = getattr(module, "PolyfilledFunctionVariable", None)
    if kind is None:
        return {}
    handlers = kind._get_polyfill_handlers()
    if len(handlers) != _polyfills[0]:
        users = {
            function: handler
            for function, handler in handlers.items()
            if isinstance(function, FUNCTIONS) and not handler.__torch_dynamo_polyfill__.__module__.startswith("torch.")
        }
        _polyfills = len(handlers), users
    return _polyfills[1]
