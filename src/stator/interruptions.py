"""Exceptions that a signal brings into the middle of a capture: they are neither the program's nor stator's."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


def is_interruption(error: BaseException) -> bool:
    """Whether an exception came from outside: KeyboardInterrupt and its like, or what a handler of a signal raised."""
    if not isinstance(error, (Exception, SystemExit, GeneratorExit)):
        return True
    codes = set(handlers())
    return bool(codes) and any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def handlers() -> Iterator[CodeType]:
    """The code of those in Python, of which most programs have none."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # of a partial
        for called in (handler, method_of(type(handler))):
            function = getattr(called, "__func__", called)
            if isinstance(function, FunctionType):
                yield function.__code__


def method_of(cls: type) -> Any:
    """What instances of a class run when they are called; not what the class itself does, as an enumeration."""
    return next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
