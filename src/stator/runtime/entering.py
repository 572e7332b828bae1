"""Functions of torch that answer as a row of stator's says, whoever calls them: the program, or native code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

from stator.eval.forms import replace
from stator.frame import RETURN, Frame
from stator.native.callers import call_python
from stator.world.lazy import forced

Row = Callable[[Any, Frame, Any, list[Any], "dict[str, Any] | None"], Any]
Condition = Callable[[Any, list[Any]], bool]
FUNCTIONS: dict[FunctionType, Row] = {}
CONDITIONS: dict[FunctionType, Condition] = {}  # of the host and the arguments: otherwise a function runs as it is


def answers_for(*functions: Any, when: Condition | None = None) -> Callable[[Row], Row]:
    """Registers a row for these functions."""

    def register(row: Row) -> Row:
        FUNCTIONS.update(dict.fromkeys(functions, row))
        if when is not None:
            CONDITIONS.update(dict.fromkeys(functions, when))
        return row

    return register


def row_of(function: Any) -> Row | None:
    """The row that answers a call."""
    return FUNCTIONS.get(function) if type(function) is FunctionType else None


def caller_of(function: Any) -> Row | None:
    """How the program's own code calls such a function."""
    return None if row_of(function) is None else call_row


def call_row(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """What the row calls is no part of the user's frames that a break could go on in."""
    if not applies(host, function, args):
        return call_python(host, f, function, args, kwargs)
    f.tail = -1
    row = row_of(function)
    assert row is not None
    return row(host, f, function, [forced(host, arg) for arg in args], kwargs)


def applies(host: Any, function: Any, args: list[Any]) -> bool:
    """Whether the row of a function answers for these arguments."""
    condition = CONDITIONS.get(function)
    return condition is None or condition(host, [forced(host, arg) for arg in args[:1]])


def replace_body(host: Any, f: Frame, function: Any) -> bool:
    """Lets the frame of such a function answer; True if it is one."""
    row = row_of(function)
    if row is None or not applies(host, function, f.locals[:1]):
        return False
    answer_frame(f, lambda frame, args, kwargs: row(host, frame, function, args, kwargs))
    return True


def answer_frame(f: Frame, answer: Callable[[Frame, list[Any], dict[str, Any]], Any]) -> None:
    """Lets a frame that has just been entered return what a function of its arguments gives."""

    def handler(frame: Frame, arg: Any) -> int:
        frame.result = answer(frame, *arguments(frame))
        return RETURN

    f.info = copy.copy(f.info)
    replace(f.info, handler, forces=True)


def arguments(f: Frame) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a frame that has just been entered, as a call that binds to the same."""
    code = f.code
    plain, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    args = f.locals[:plain]
    kwargs = dict(zip(code.co_varnames[plain:named], f.locals[plain:named], strict=True))
    rest = iter(f.locals[named:])
    if code.co_flags & 0x04:
        args = [*args, *next(rest)]
    if code.co_flags & 0x08:
        kwargs.update(next(rest))
    world = f.world
    return [forced(world, arg) for arg in args], {name: forced(world, arg) for name, arg in kwargs.items()}
