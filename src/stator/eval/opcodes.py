"""The opcode table: each handler registers under the opcodes it implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stator._frames import FAILED
from stator._frames import native as run_native
from stator.code.decode import Handler
from stator.code.micro import opcode_function
from stator.frame import RAISED, Frame

OPCODES: dict[str, Handler] = {}


def op(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler: handler(frame, argument) -> None to go on, a unit to jump to, or RETURN."""

    def register(handler: Handler) -> Handler:
        for name in names:
            OPCODES[name] = handler
        return handler

    return register


def run_micro(frame: Frame, function: Any, inputs: int) -> Any:
    """Run one opcode in CPython on the top `inputs` stack values, which it consumes."""
    stack = frame.stack
    values = stack[len(stack) - inputs :]
    del stack[len(stack) - inputs :]
    result = run_native(function, *values)
    if result is FAILED:
        strip_micro(frame.error, function)
        raise RAISED
    return result


def strip_micro(error: BaseException | None, function: Any) -> None:
    """Take the opcode function's own line out of a traceback."""
    assert error is not None
    traceback = error.__traceback__
    if traceback is not None and traceback.tb_frame.f_code is function.__code__:
        error.__traceback__ = traceback.tb_next


def micro(name: str, inputs: Callable[[int], int], outputs: Callable[[int], int]) -> None:
    """Register an opcode that CPython executes itself."""

    def handler(frame: Frame, arg: int) -> None:
        pushed = outputs(arg)
        result = run_micro(frame, opcode_function(name, arg, inputs(arg), pushed), inputs(arg))
        if pushed == 1:
            frame.stack.append(result)
        else:
            frame.stack.extend(result)

    OPCODES[name] = handler
