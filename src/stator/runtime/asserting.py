"""Assertions of the program on numbers that only data tells: facts while capturing, checks when the graph runs.

Where one does not hold, CPython runs the call from the start and raises in the program's own words.
"""

from __future__ import annotations

import dis
from functools import partial
from operator import is_not
from types import FunctionType
from typing import Any

import torch

from stator import _frames
from stator.code.decode import units
from stator.frame import Frame
from stator.native.host import call_python, standin
from stator.shapes.scalar import TracedBool
from stator.tensors.signals import DataDependent
from stator.tensors.traced import TracedTensor
from stator.tensors.values import bool_of

ALWAYS = partial(is_not, None)  # what `bool` is to a condition that was assumed to hold


def assumed(host: Any, value: Any) -> bool:
    """Whether the program goes on only if a value is true, which is assumed then."""
    frame = _frames.top_frame()
    if frame is None or not is_asserted(frame):
        return False
    if type(value) is TracedTensor:
        try:
            value = bool_of(host.recorder, value)
        except DataDependent:
            return False
    if type(value) is not TracedBool:
        return value is True
    value.symbols.assume(value, "an assertion of the program")
    host.recorder.write_checks()
    return True


def is_asserted(frame: Any) -> bool:
    """Whether the instruction is the jump of an `assert` statement."""
    known = units(frame.code)
    name, arg, following = known[frame.lasti][:3]
    if "IF_TRUE" in name:
        return bool(known[following][0] == "LOAD_ASSERTION_ERROR")
    return False


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
    host.recorder.write_checks()
    return None
