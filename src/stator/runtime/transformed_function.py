"""Custom `autograd.Function`s inside of `torch.func`: one node that calls the program's own function.

Which of its methods run (`vmap`, `jvp`, `setup_context`, backward at which level) is up to torch when it applies the
transform. So they run as they are, once capture has seen that forward and backward change nothing.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from torch.autograd.function import Function

from stator.errors import Unsupported
from stator.frame import Frame
from stator.runtime.compiling import not_compiling
from stator.runtime.footprint import Footprint, writes
from stator.runtime.marked import ARGUMENTS, stranger
from stator.tensors.subgraph import SubGraph
from stator.tensors.targets import Target

Trial = Callable[[], Any]  # runs forward, and captures backward where there is one
RULES = ("vmap", "jvp")
WRITING = frozenset({"STORE_GLOBAL", "STORE_ATTR", "STORE_DEREF", "STORE_SUBSCR", "DELETE_GLOBAL", "DELETE_ATTR"})


def call_within(host: Any, f: Frame, cls: type[Function], values: list[Any], trial: Trial) -> Any:
    """`cls.apply(*values)` as one node."""
    name = f"{cls.__name__}.apply"
    if (odd := stranger(values, ARGUMENTS)) is not None:
        raise host.refuse("higher-order", f"{name} is given a {odd.__qualname__} inside of a transform", function=name)
    if pending(host):
        raise host.refuse("higher-order", f"{name}: a transform runs it before the program's effects", function=name)
    if any(writes_something(getattr(cls, rule)) for rule in RULES if getattr(cls, rule) is not getattr(Function, rule)):
        raise host.refuse("higher-order", f"{name}: its rules for transforms change something", function=name)
    footprint = Footprint(host, [])
    with SubGraph(host.recorder):
        trial()
    if footprint.changed():
        raise host.refuse("higher-order", f"{name} changes something outside of it", function=name)

    def call(*args: Any) -> Any:
        with not_compiling():
            return cls.apply(*args)

    call.__name__ = call.__qualname__ = f"apply_{cls.__name__}"
    target = Target(call, "call_function", call, cls.__name__)
    target.unique = True
    try:
        return host.recorder.record(target, tuple(values), {})
    except Unsupported as error:
        raise host.located(error) from None


def pending(host: Any) -> bool:
    """Whether the program has changed anything: code that runs as it is would not see it."""
    effects, locks, ambient, *rest = writes(host)
    return bool(effects or locks or ambient or rest)


def writes_something(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    return "print" in code.co_names or any(one.opname in WRITING for one in dis.get_instructions(code))


def in_transform(recorder: Any) -> bool:
    """Whether what is being recorded is a function that `torch.func` transforms."""
    return recorder.sub is not None and recorder.sub.transformed
