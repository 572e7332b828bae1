"""Calls that miss: of a function, of what is left of one behind a break, of a frame below one."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Container
from typing import Any

from stator import _entry, _frames
from stator.errors import Location, Unsupported
from stator.guards import path as paths
from stator.guards.path import Path
from stator.native.callers import CO_VARARGS, CO_VARKEYWORDS
from stator.native.held import watch
from stator.runtime.continuation import Continuation, Variables, handed_over
from stator.runtime.module_calls import entered_function
from stator.runtime.naming import argument_names, shown
from stator.runtime.tensor_host import TensorHost
from stator.runtime.throwing import throw
from stator.world.iterated import gone_over
from stator.world.lazy import Lazy, forced


class Call:
    """The call of a function, to be captured."""

    behind_break = False  # or below one
    behind_one = False  # behind the first break of the program
    loops: Collection[types.CodeType] = ()  # frames that are in a loop, behind a break
    goes_round = False  # does not leave it
    requested = False  # by the program, that break

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs or {}
        self.names = tuple(self.kwargs)
        self.values = (*args, *self.kwargs.values())  # as the guard program numbers them

    def run(self, owner: Any = None) -> Any:
        """The call itself, which CPython runs once stator has returned; frames below it go to the owner."""
        return _entry.tail_call(owner, self.function, self.args, self.kwargs)

    def fail(self, error: BaseException) -> Any:
        """Nothing has happened yet: the error is the caller's."""
        raise error

    def enter(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Function, arguments and keyword arguments as the captured program sees them."""
        function: Any = self.function
        receiver: tuple[Any, ...] = ()
        host.enter_const(function)
        if type(function) is types.MethodType:
            receiver = (host.enter_const(function.__self__),)
            function = entered_function(host, function)
        enter = host.light if takes_plainly(function) else host.enter
        waits = host.waiting if enter == host.light else ()
        entered = [enter_or_wait(host, enter, value, paths.arg(i), waits) for i, value in enumerate(self.values)]
        keywords = dict(zip(self.names, entered[len(self.args) :], strict=True))
        return function, (*receiver, *entered[: len(self.args)]), keywords

    def eager_function(self, owner: Any) -> tuple[list[Path], Callable[..., Any]]:
        """What runs the call in CPython whenever the guards hold, and the values it takes."""
        function, npos, names = self.function, len(self.args), self.names

        def run(*values: Any) -> Any:
            keywords = dict(zip(names, values[npos:], strict=True)) if names else None
            return _entry.tail_call(owner, function, values[:npos], keywords)

        return [paths.arg(i) for i in range(len(self.values))], run

    def passed_on(self, function: Any) -> Callable[..., Any]:
        """What gives the values of such a call to another function."""
        npos, names = len(self.args), self.names
        return lambda *values: function(*values[:npos], **dict(zip(names, values[npos:], strict=True)))

    def variables(self) -> Variables | None:
        """The variables of the outermost frame that hold values of the call, by name."""
        function = self.function
        bound = type(function) is types.MethodType
        function = function.__func__ if bound else function
        if not takes_plainly(function):
            return None
        code = function.__code__
        given = dict(zip(code.co_varnames[bound:], range(len(self.args)), strict=False))
        given.update((name, len(self.args) + i) for i, name in enumerate(self.names))
        return Variables(code, 0, given)

    @property
    def code(self) -> types.CodeType | None:
        """What is called, for people: `forward` of a module."""
        return code_of(shown(self.function))

    @property
    def place(self) -> Location | None:
        """Where it begins."""
        return place_of(shown(self.function))

    @property
    def name(self) -> str:
        function = shown(self.function)
        return getattr(function, "__qualname__", type(function).__qualname__)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """What the program calls the values."""
        return argument_names(shown(self.function), len(self.args), self.names)


class ResumedCall(Call):
    """The rest of a call behind a break, to be captured."""

    behind_break = True

    def __init__(self, continuation: Continuation, values: tuple[Any, ...]) -> None:
        super().__init__(None, values, None)
        self.continuation = continuation
        self.requested = continuation.requested
        self.loops, self.goes_round = continuation.loops, continuation.goes_round
        self.behind_one = continuation.first and not continuation.loops

    def run(self, owner: Any = None) -> Any:
        return _entry.tail_call(owner, *self.continuation.build(self.values, handed_over))

    def eager_function(self, owner: Any) -> tuple[list[Path], Callable[..., Any]]:
        build = self.continuation.build

        def run(*values: Any) -> Any:
            return _entry.tail_call(owner, *build(values, handed_over))

        return [paths.arg(i) for i in range(len(self.values))], run

    def fail(self, error: BaseException) -> Any:
        """The program is in the middle of its blocks: the error goes through it."""
        return throw(self.continuation, error, self.values)

    def enter(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        host.lazy = True
        host.carried = self.values
        host.gone_over = gone_over(self.values)
        watch(host)
        return self.entered(host)

    def entered(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The functions that go on, with values that enter when the program looks at them."""
        entered: list[Any] = []
        for i, value in enumerate(self.values):
            is_cell = type(value) is types.CellType
            entered.append(host.enter(value, paths.arg(i)) if is_cell else Lazy(value, paths.arg(i)))
        function, state = self.continuation.build(entered)
        for made in self.continuation.functions(function, state):
            host.inside_function(made)
        return function, (state,), {}

    def variables(self) -> Variables | None:
        return self.continuation.variables

    @property
    def code(self) -> types.CodeType | None:
        return self.continuation.code

    @property
    def place(self) -> Location | None:
        code, unit = self.continuation.broken
        return Location(code, 2 * unit)

    @property
    def name(self) -> str:
        return self.continuation.title

    @property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(self.continuation.names.get(i, f"<value {i}>") for i in range(len(self.values)))


class BoundCall(Call):
    """A frame below a break, to be captured: its function and the arguments that CPython has bound."""

    behind_break = True

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__(values[0], values, None)

    def run(self, owner: Any = None) -> Any:
        return _frames.NOT_TAKEN

    def eager_function(self, owner: Any) -> tuple[list[Path], Callable[..., Any]]:
        return [], leave_alone if owner is not None else leave_with_callees

    def variables(self) -> Variables | None:
        code = self.function.__code__
        return Variables(code, 0, {name: i + 1 for i, name in enumerate(code.co_varnames[: len(self.values) - 1])})

    @property
    def argument_names(self) -> tuple[str, ...]:
        return (self.name, *self.function.__code__.co_varnames)[: len(self.values)]

    def enter(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        code = self.function.__code__
        named = code.co_argcount + code.co_kwonlyargcount
        function, *rest = [
            enter_or_wait(host, host.light if i <= named else host.enter, value, paths.arg(i))
            for i, value in enumerate(self.values)
        ]
        positional, keywords = rest[: code.co_argcount], rest[code.co_argcount : named]
        names = code.co_varnames[code.co_argcount : named]
        extra = rest[named:]
        if code.co_flags & VARARGS:
            positional += host.settled(forced(host, extra.pop(0)))
        passed = dict(zip(names, keywords, strict=True))
        if extra:
            passed |= host.settled(forced(host, extra[0]))
        return function, tuple(positional), passed


VARARGS = 0x04  # a flag of code objects


def leave_alone() -> Any:
    return _frames.NOT_TAKEN


def leave_with_callees() -> Any:
    return _frames.PLAINLY


def takes_plainly(function: Any) -> bool:
    """Whether arguments of a call become locals of the frame as they are."""
    return type(function) is types.FunctionType and not function.__code__.co_flags & (CO_VARARGS | CO_VARKEYWORDS)


def enter_or_wait(
    host: TensorHost, enter: Callable[[Any, Path], Any], value: Any, path: Path, waits: Container[Path] = ()
) -> Any:
    """The value as it enters; not yet if it changes or nothing can be known about it: perhaps nobody looks at it."""
    if path in waits:
        host.lazy = True
        return Lazy(value, path)
    known = len(host.records)
    try:
        return enter(value, path)
    except Unsupported:
        host.forget_since(known)
        host.lazy = True
        return Lazy(value, path)


def place_of(function: Any) -> Location | None:
    """Where the code begins that a callable runs first."""
    code = code_of(function)
    return None if code is None else Location(code)


def code_of(function: Any) -> types.CodeType | None:
    """The code object that a callable runs first."""
    function = function.__func__ if type(function) is types.MethodType else function
    if not isinstance(function, types.FunctionType):
        method = type(function).__call__
        function = getattr(method, "__func__", method)
    return getattr(function, "__code__", None)
