"""The interpreter loop: frames that arrive in the hook are executed here."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from stator._frames import FAILED
from stator.code.decode import CodeInfo
from stator.errors import StatorError
from stator.eval import ops_build, ops_call, ops_except, ops_generator, ops_names, ops_operate  # noqa: F401
from stator.eval.opcodes import OPCODES
from stator.frame import RERAISED, RETURN, Frame, Raised

_infos: dict[int, CodeInfo] = {}


def code_info(code: CodeType) -> CodeInfo:
    """Decoded form of a code object, kept by identity."""
    info = _infos.get(id(code))
    if info is None:
        info = _infos[id(code)] = CodeInfo(code, OPCODES)
    return info


def replace_body(code: CodeType, body: Callable[[Frame], Any]) -> None:
    """Frames of this code answer what `body(frame)` returns, whoever calls them."""

    def handler(frame: Frame, arg: Any) -> int:
        frame.result = body(frame)
        return RETURN

    info = code_info(code)
    info.ops = [(handler, None, 0)] * len(info.ops)


class Machine:
    """Runs the frames of one capture against one world."""

    def __init__(self, world: Any) -> None:
        self.world = world

    def interpret(self, frame: Frame) -> Any:
        """Called by the hook. Returns the value, or FAILED with `frame.error`; anything raised is stator's own."""
        info = frame.info = code_info(frame.code)
        values = frame.locals = frame.take()
        frame.stack = values[info.fast :]  # empty unless a generator is resumed
        if frame.stack:
            del values[info.fast :]
        del values
        frame.kwnames = ()
        frame.world = self.world
        if frame.fresh:
            self.world.frame_enters(frame)
        if frame.error is not None:
            unit = unwind(frame, frame.lasti, silent=False)
            if unit < 0:
                return FAILED
        else:
            unit = frame.lasti + 1
        return run(frame, unit)


def run(frame: Frame, unit: int) -> Any:
    """Dispatch until the frame returns, yields or raises."""
    ops = frame.info.ops
    while True:
        try:
            while True:
                handler, arg, following = ops[unit]
                frame.lasti = unit
                jump = handler(frame, arg)
                if jump is None:
                    unit = following
                elif jump >= 0:
                    unit = jump
                else:
                    return leave(frame)
        except Raised as raised:
            raised.__traceback__ = raised.__context__ = None  # one object for all: it must not keep frames alive
            unit = unwind(frame, unit, silent=raised is RERAISED)
            if unit < 0:
                return FAILED


def leave(frame: Frame) -> Any:
    """The frame returns or yields: give CPython's frame what it must hold."""
    result = frame.result
    frame.result = None
    if frame.yielded:
        frame.put(frame.locals, frame.stack)
    frame.locals.clear()
    frame.stack.clear()
    return result


def unwind(frame: Frame, unit: int, silent: bool) -> int:
    """Find the handler of `frame.error` raised at `unit`: where to go on, or -1 when the exception leaves the frame."""
    error = frame.error
    assert error is not None
    if isinstance(error, StatorError):  # raised by stator's own code below native code
        raise error
    info = frame.info
    if not silent:
        frame.add_traceback(error)
    row = info.handler(unit)
    if row is None:
        frame.put(frame.locals, [])
        frame.locals.clear()
        frame.stack.clear()
        return -1
    frame.error = None
    del frame.stack[row.depth :]
    if row.lasti:
        frame.stack.append(frame.lasti)  # RERAISE has put the place of the first raise there
    frame.stack.append(error)
    return row.target
