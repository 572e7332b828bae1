"""Functions that capture must not enter: `stator.disable`, `torch.compiler.disable` and the mark both leave."""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType
from typing import Any

import torch

from stator import _frames
from stator.frame import Frame
from stator.native.callers import call_python
from stator.runtime.compiling import EXCLUDED_ALONE, EXCLUDED_WITH_CALLEES

CODES = (EXCLUDED_WITH_CALLEES, EXCLUDED_ALONE)
for _code in CODES:
    _frames.mark_code(_code, _frames.TAKEN)  # stator's own code, but it stands for the user's


def check(host: Any, function: Any) -> None:
    """Refuses a function that was excluded."""
    if not is_excluded(function):
        return
    marks = _frames.instance_dict(function) or {}
    name = getattr(marks.get("__wrapped__"), "__qualname__", function.__qualname__)
    reason = marks.get("_torchdynamo_disable_msg")
    raise host.refuse("disabled-function", f"call of {name}" + (f": {reason}" if reason else ""), function=name)


def is_excluded(function: Any) -> bool:
    """By its code, or by torch's mark; `functools.wraps` copies that from torch's wrapper to functions around it."""
    if function.__code__ is EXCLUDED_WITH_CALLEES or function.__code__ is EXCLUDED_ALONE:
        return True
    marks = _frames.instance_dict(function)
    if not marks or not marks.get("_torchdynamo_disable"):
        return False
    return "_torchdynamo_wrapper_id" not in marks or is_torch_wrapper(function)


def is_excluded_below(function: Any) -> bool:
    """Whether neither a function nor anything that it calls is compiled."""
    function = function.__func__ if type(function) is MethodType else function
    if type(function) is not FunctionType or not is_excluded(function):
        return False
    marks = _frames.instance_dict(function) or {}
    return "_torchdynamo_disable" in marks and marks.get("_torchdynamo_disable_recursive") is not False


def is_torch_wrapper(function: Any) -> bool:
    """Whether this is what torch's `disable` returned, not something with a copy of its attributes."""
    home = function.__globals__.get("__name__")
    return type(home) is str and home.startswith("torch._dynamo.")


def caller_of(function: Any) -> Any:
    """Calls from the program's own code are refused where they are made."""
    if type(function) is FunctionType and (row := OF_TORCH.get(id(function.__code__))) is not None:
        return row
    if type(function) is not FunctionType or not is_excluded(function):
        return None
    return call_within if is_of_optimizer(function) else refuse_call


def is_of_optimizer(function: Any) -> bool:
    """Whether torch excluded a function of its optimizers from its own compiler, when that was first used."""
    within = (_frames.instance_dict(function) or {}).get("__wrapped__")
    return is_torch_wrapper(function) and str(getattr(within, "__module__", "")).startswith("torch.optim.")


def call_within(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    return host.call(f, function.__wrapped__, args, kwargs)


def refuse_search(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """LBFGS decides by data several times in each iteration, and works with a history that grows from one to the next:
    captured, it would be compiled again and again."""
    raise host.refuse("data-dependent-branch", "a search of torch.optim.LBFGS follows data", function="LBFGS.step")


def refuse_layers(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """Recurrent layers whose operation is left to eager: what comes before it is no graph of its own."""
    if torch.lstm in host.recorder.refused:
        raise host.refuse("tensor-operation", "the backend cannot take it", function=function.__qualname__)
    return call_python(host, f, function, args, kwargs)


OF_TORCH = {
    id(inspect.unwrap(torch.optim.LBFGS.step).__code__): refuse_search,
    **{id(cls.forward.__code__): refuse_layers for cls in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU)},
}


def refuse_call(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    check(host, function)
