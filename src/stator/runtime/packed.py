"""Functions that were given more or fewer values for `*args` or `**kw`: from then on these are one, as in the frame.

Entries of such a function are told apart by how many values it is given. What is packed goes on like what is behind a
break, with the variables of the frame as its values: the tuple enters when the program looks at it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any

from torch.nn import Module

from stator import _entry
from stator.code.decode import units
from stator.code.resume import Layout
from stator.errors import Location
from stator.eval.machine import code_info
from stator.native.callers import CO_VARARGS, CO_VARKEYWORDS
from stator.runtime.calls import Call, ResumedCall
from stator.runtime.continuation import Continuation, piece, resumed_code
from stator.runtime.module_calls import plain_forward

MOST_DIFFERENT = 1  # numbers of values, or sets of keywords, that are an entry each
SUSPENDING = 0x20 | 0x80 | 0x200  # flags of generators and coroutines


def takes_any(code: CodeType) -> bool:
    """Whether a function takes any number of values, and could be packed."""
    return bool(code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)) and not code.co_flags & SUSPENDING


def parameters(code: CodeType) -> int:
    """How many variables of a frame hold what the function is given."""
    flags = code.co_flags
    return code.co_argcount + code.co_kwonlyargcount + bool(flags & CO_VARARGS) + bool(flags & CO_VARKEYWORDS)


def code_and_receiver(function: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """The function written in Python, and what it is bound to."""
    if type(function) is FunctionType:
        return function, ()
    if type(function) is not MethodType or type(function.__func__) is not FunctionType:
        return None
    called: FunctionType | None = function.__func__
    if called is Module._wrapped_call_impl:
        called = plain_forward(function.__self__)
    return None if called is None else (called, (function.__self__,))


def binder(code: CodeType) -> CodeType:
    """The code of a function that takes the same, and gives it back as a frame has it."""
    names = list(code.co_varnames[: parameters(code)])
    stop, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    positional, keywords, rest = names[:stop], names[stop:last], names[last:]
    given = [f"{name}=None" for name in positional]  # the real defaults are set for each call
    if code.co_posonlyargcount:
        given.insert(code.co_posonlyargcount, "/")
    if code.co_flags & CO_VARARGS:
        given.append(f"*{rest.pop(0)}")
    elif keywords:
        given.append("*")
    given += [f"{name}=None" for name in keywords]
    given += [f"**{name}" for name in rest]
    made: dict[str, Any] = {}
    exec(f"def binder({', '.join(given)}): return ({', '.join(names)},)", made)
    found: CodeType = made["binder"].__code__
    return found


class Packed:
    """One function with its variables packed: what goes on in its frame."""

    def __init__(self, function: FunctionType, make: Callable[[Continuation], Any]) -> None:
        self.code = code = function.__code__
        self.globals = function.__globals__
        self.binder = binder(code)
        count, info = parameters(code), code_info(code)
        unit = next(at for at, row in enumerate(units(code)) if row[0] in ("MAKE_CELL", "RESUME"))
        frame: Any = SimpleNamespace(
            code=code, unit=unit, info=info, slots=tuple(range(count)), globals=self.globals,
            name=function.__name__, qualname=function.__qualname__,
            closure=range(count, count + len(code.co_freevars)),
        )  # fmt: skip
        resumed = resumed_code(code, unit, Layout(frame.slots, ()), None)
        self.continuation = Continuation([piece(frame, resumed, range(count), ())], [frame], 0, unit)
        self.cache = make(self.continuation)

    def fits(self, function: FunctionType) -> bool:
        """Whether it is made of what the function still is."""
        return function.__code__ is self.code and function.__globals__ is self.globals

    def call(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """The call, bound by CPython, goes on in the cache; NotImplemented if it has to fail."""
        bind = FunctionType(self.binder, self.globals, function.__name__, function.__defaults__)
        bind.__kwdefaults__ = function.__kwdefaults__
        try:
            values = bind(*args, **(kwargs or {}))
        except TypeError:
            return NotImplemented
        return self.run(function, values)

    def run(self, function: FunctionType, values: tuple[Any, ...]) -> Any:
        return _entry.tail_call(None, self.cache.compiled, (*values, *(function.__closure__ or ())), {})


class PackedCall(ResumedCall):
    """The call of such a function, to be captured."""

    def __init__(self, continuation: Continuation, values: tuple[Any, ...], below: bool) -> None:
        super().__init__(continuation, values)
        self.behind_break = below

    def enter(self, host: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        host.lazy = True
        return self.entered(host)

    def fail(self, error: BaseException) -> Any:
        return Call.fail(self, error)

    @property
    def place(self) -> Location | None:
        return Location(self.continuation.code)

    @property
    def name(self) -> str:
        return self.continuation.code.co_qualname


class Shapes:
    """Which numbers of values and sets of keywords a function was given for `*args` and `**kw`."""

    def __init__(self) -> None:
        self.counts: set[int] = set()
        self.keywords: set[tuple[str, ...]] = set()

    def note(self, code: CodeType, count: int, names: tuple[str, ...]) -> bool:
        """Whether there are too many by now for an entry each."""
        known = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
        if code.co_flags & CO_VARARGS:
            self.counts.add(max(count - code.co_argcount, 0))
        if code.co_flags & CO_VARKEYWORDS:
            self.keywords.add(tuple(name for name in names if name not in known))
        return self.too_many()

    def note_frame(self, code: CodeType, values: tuple[Any, ...]) -> bool:
        """The same of a frame with these variables."""
        rest = list(values[code.co_argcount + code.co_kwonlyargcount :])
        if code.co_flags & CO_VARARGS:
            self.counts.add(len(rest.pop(0)))
        if code.co_flags & CO_VARKEYWORDS:
            self.keywords.add(tuple(rest[0]))
        return self.too_many()

    def too_many(self) -> bool:
        return max(len(self.counts), len(self.keywords)) > MOST_DIFFERENT
