"""`torch._check` on numbers that only data tells: facts while capturing, checks when the graph runs.

Where one does not hold, CPython runs the call from the start and raises in the program's own words.
"""

from __future__ import annotations

import dis
from types import FunctionType
from typing import Any

import torch

from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.rows import standin
from stator.shapes.scalar import TracedBool


def constant_text(function: Any) -> str:
    """The text that a function without arguments returns, if that is all it does."""
    if type(function) is not FunctionType:
        return ""
    steps = [step for step in dis.get_instructions(function) if step.opname not in ("RESUME", "COPY_FREE_VARS")]
    if [step.opname for step in steps] != ["LOAD_CONST", "RETURN_VALUE"]:
        return ""
    return str(steps[0].argval)


@standin(torch._check_with)
def stand_check(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`torch._check` and its variants, of a condition on numbers from data."""
    if len(args) != 3 or type(args[1]) is not TracedBool:
        return call_python(host, f, function, args, kwargs)
    condition = args[1]
    condition.symbols.assume(condition, constant_text(args[2]))
    host.recorder.numbers.write_checks()
    return None
