"""The interpreter's view of one running frame, and how user exceptions travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import FAILED, UNBOUND

if TYPE_CHECKING:
    from stator.code.decode import CodeInfo

RETURN = -1  # an opcode handler's answer: the frame is done, `result` holds the value


class Raised(BaseException):
    """The captured program raised; the exception is `frame.error`. Never leaves the interpreter loop."""


RAISED = Raised()
RERAISED = Raised()  # the traceback is complete already


class CallerHandles:
    """Stands on the stack for the exception that the caller of the captured program handles, or for none."""

    __slots__ = ()


CALLER_HANDLES = CallerHandles()


def forget_tracebacks() -> None:
    """The two control exceptions are shared: what passed through them must not be kept alive."""
    for raised in (RAISED, RERAISED):
        raised.__traceback__ = raised.__context__ = None


class Frame(_frames.Frame):
    """A CPython frame plus the evaluation stack; created by the hook."""

    __slots__ = (
        "called", "callee", "direct", "finish", "info", "kept", "kwnames", "locals", "passes", "path", "result",
        "stack", "started", "steps", "tail", "through", "world",
    )  # fmt: skip

    stack: list[Any]
    locals: list[Any]
    info: CodeInfo
    world: Any
    result: Any
    kwnames: tuple[str, ...]
    path: tuple[int, ...]  # of a direct frame: its number among the direct frames that each frame below it started
    started: int  # direct frames started by this one
    steps: int  # instructions executed when the frame was given up
    direct: bool  # started by an instruction of the frame below whose result is this frame's result
    tail: int  # the unit whose instruction passes on the result of the Python function it calls
    called: Any  # that function
    callee: Any  # what was called when the capture was given up
    finish: str | None  # what C does with its result (`code/finishing.py`); "": what the instruction does, after a look
    kept: tuple[Any, ...]  # what C needs for that, besides
    through: int  # the unit whose instruction calls a module: eager has frames of `nn.Module` in between
    passes: bool  # nothing looks at the result of this direct frame on its way


def throw(frame: Frame, error: BaseException) -> Any:
    """Raise an exception that the interpreter itself made, with the context CPython would give it."""
    handled = frame.topmost
    if handled is not None and handled is not error and error.__context__ is None:
        error.__context__ = handled
    frame.error = error
    raise RAISED


def native(frame: Frame, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call for the captured program; its exceptions become `Raised`."""
    result = _frames.native(function, *args, **kwargs)
    if result is FAILED:
        raise RAISED
    return result


__all__ = [
    "FAILED", "RAISED", "RERAISED", "RETURN", "UNBOUND", "Frame", "Raised", "forget_tracebacks", "native", "throw",
]  # fmt: skip
