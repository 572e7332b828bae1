"""Calls about the compiler in captured code: breaks that the program asks for, and changes it cannot make."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from stator import _frames
from stator.control import breaking, marks, stance
from stator.eval.machine import replace_body
from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import Caller, standin

# Functions of torch that mean the same as ours, by name; both live in one module.
TORCH_HOME = "torch._dynamo.decorators"
OPTIMIZERS = "torch.optim.optimizer"
TORCH_BREAKS = frozenset({"graph_break"})
TORCH_CONTROLS = frozenset({"set_stance.__init__", "set_stance.__enter__", "set_stance.__exit__"})


@standin(breaking.graph_break)
def call_break(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`graph_break(msg)`: at the call, which is where the program can go on.

    Optimizers ask for one around each step, for the sake of a compiler that is not this one.
    """
    if function is not breaking.graph_break and f.globals.get("__name__") == OPTIMIZERS:
        return None
    given = [*args, *(kwargs or {}).values()]
    if len(given) > 1 or not (kwargs or {}).keys() <= {"msg"}:
        return call_python(host, f, function, args, kwargs)
    raise requested_break(host, given)


def requested_break(host: Any, given: list[Any]) -> Exception:
    text = given[0] if given and type(given[0]) is str else ""
    return host.refuse("graph-break-requested", text)


def frame_of_break(frame: Frame) -> Any:
    """Native code called `graph_break`."""
    raise requested_break(frame.world, frame.locals[:1])


def refused_control(name: str) -> Any:
    """A function that would change how programs are compiled."""

    def refuse(frame: Frame) -> Any:
        raise frame.world.refuse("control-in-capture", f"call of {name} while capturing", function=name)

    return refuse


def take(code: CodeType, body: Any = None) -> None:
    """Code of stator that is part of the captured program, as it is or with another body."""
    _frames.mark_code(code, _frames.TAKEN)
    if body is not None:
        replace_body(code, body)


take(breaking.graph_break.__code__, frame_of_break)
take(breaking.REGION_CODE)
take(marks.SUBSTITUTED_CODE)
take(stance.STANCE_CODE)
for _function in (marks.allow_in_graph, marks.assume_constant_result, marks.substitute_in_graph):
    take(_function.__code__, refused_control(f"stator.{_function.__name__}"))
for _method in (stance.stance.__init__, stance.stance.__enter__, stance.stance.__exit__, stance.stance.__call__):
    take(_method.__code__, refused_control("stator.stance"))


def torch_caller(function: Any) -> Caller | None:
    """How a function of `torch._dynamo` that is about the compiler is called."""
    known = type(function) is FunctionType and function.__qualname__ in TORCH_BREAKS
    return call_break if known and function.__module__ == TORCH_HOME else None


def check_torch(host: Any, function: Any) -> None:
    """The frame of such a function."""
    name = function.__qualname__
    if name in TORCH_BREAKS and function.__module__ == TORCH_HOME:
        raise requested_break(host, [])
    if name in TORCH_CONTROLS and function.__module__ == TORCH_HOME:
        name = "torch.compiler.set_stance"
        raise host.refuse("control-in-capture", f"call of {name} while capturing", function=name)
