"""An error of stator's own behind a break: raised inside the program, so that its `with` and `finally` blocks end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from stator.runtime.continuation import Continuation, resumed_code


def throw(continuation: Continuation, error: BaseException, values: tuple[Any, ...]) -> Any:
    """Goes on in CPython with the error instead of the next instruction.

    Where the rest begins with a handler, an exception is on its way already and ends the same blocks: that one goes on.
    """
    start = continuation.start
    if start is None:
        return continuation.run(*values)
    layout = start.layout._replace(calls=True)
    innermost = continuation.pieces[-1]
    code = resumed_code(start.code, start.unit, layout, start.thrown_at, "CALL")  # which never returns
    thrown = replace(innermost, code=code, constant=None)
    inner: tuple[Any, ...] = (raising, error)
    for part in (thrown, *continuation.pieces[-2::-1]):
        state = (*(values[i] for i in part.items), *inner[::-1], *(values[i] for i in part.stack))
        inner = (part.function(values), state)
    function, state = inner
    return function(state)


def raising(error: BaseException) -> NoReturn:
    raise error
