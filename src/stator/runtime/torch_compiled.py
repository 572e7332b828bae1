"""Calls of what `torch.compile` returned: the function within is captured along with its caller."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from stator import _frames
from stator.frame import Frame
from stator.runtime.entering import answer_frame
from stator.runtime.excluded import is_torch_wrapper
from stator.world.attributes import read_function

_WRAPPER = "compile_wrapper"  # the name of the code that all of these share
_WITHIN = "_torchdynamo_orig_callable"


def caller_of(function: Any) -> Any:
    """How the program's own code calls one."""
    return call_within if is_compiled(function) else None


def is_compiled(function: Any) -> bool:
    """Whether `torch.compile` made it; `functools.wraps` copies the mark to functions around it, but not the code."""
    if type(function) is not FunctionType or function.__code__.co_name != _WRAPPER:
        return False
    return _WITHIN in (_frames.instance_dict(function) or ()) and is_torch_wrapper(function)


def call_within(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """Its code and the function within are guarded; backend and options are those of the compilation around it."""
    read_function(host, f, function, "__code__")
    return host.call(f, read_function(host, f, function, _WITHIN), args, kwargs)


def replace_body(host: Any, f: Frame, function: Any) -> bool:
    """Lets the frame of one that native code calls do the same; True if it is one."""
    if not is_compiled(function):
        return False
    answer_frame(f, lambda frame, args, kwargs: call_within(host, frame, function, args, kwargs))
    return True
