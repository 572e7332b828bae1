"""Frames below a break: Python functions that CPython calls while it executes a breaking instruction."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import CodeType
from typing import Any

from torch import nn
from torch.nn.modules import module as module_globals

from stator import _frames
from stator.code.decode import units
from stator.runtime.libraries import is_foreign

# A function without any of these instructions computes nothing with tensors.
_WORK = frozenset({
    "CALL", "CALL_FUNCTION_EX", "BINARY_OP", "COMPARE_OP", "BINARY_SUBSCR", "STORE_SUBSCR", "UNARY_NEGATIVE",
    "UNARY_INVERT",
})  # fmt: skip


def is_generated(code: CodeType) -> bool:
    """Methods that `dataclass` and `namedtuple` write, also for torch itself: they move values."""
    named = code.co_name == "<lambda>" and code.co_varnames[:1] == ("_cls",)
    return code.co_filename == "<string>" and (named or code.co_qualname.startswith("__create_fn__.<locals>."))


def may_work(code: CodeType) -> bool:
    """Whether frames of this code are worth a look at all."""
    if is_foreign(code.co_filename) or is_generated(code):
        return False
    return any(name in _WORK for name, _, _ in units(code))


def has_old_hooks(module: Any) -> bool:
    """Whether a module has hooks of `register_backward_hook`, which hang on the functions of autograd within it."""
    attributes = _frames.instance_dict(module) or {}
    own = attributes.get("_is_full_backward_hook") is False and bool(attributes.get("_backward_hooks"))
    shared = module_globals._global_is_full_backward_hook is False and bool(module_globals._global_backward_hooks)
    return own or shared


def run_hooked(function: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """A call of a module below a break: a graph in it would be one function of autograd for all that it does."""
    return _frames.PLAINLY if has_old_hooks(module) else _frames.NOT_TAKEN


def run_import(*values: Any) -> Any:
    """Modules that are imported below a break: what stator would need may be half imported itself."""
    return _frames.PLAINLY


IMPORTS = import_module("importlib._bootstrap")
ALWAYS = {id(function.__code__): run_import for function in (IMPORTS._find_and_load, IMPORTS._exec)}


class Below(dict[int, Any]):
    """What takes the place of frames, by the address of their code object; None: CPython runs them."""

    __slots__ = ("kept", "make", "old_hooks")

    def __init__(self, make: Callable[[CodeType], Any]) -> None:
        super().__init__(ALWAYS)
        self.make = make
        self.kept: dict[int, Any] = {}  # for each key: takes both out when the code object dies
        self.old_hooks = False  # a module had such

    def decide(self, code: CodeType) -> Any:
        takers = (self.pop, self.kept.pop)  # in C: no interruption
        self.kept[id(code)] = [weakref.ref(code, partial(taker, id(code))) for taker in takers]
        return self.make(code) if may_work(code) else None

    def meet_old_hooks(self) -> None:
        self.old_hooks = True
        self[id(nn.Module._call_impl.__code__)] = run_hooked

    def clear(self) -> None:
        super().clear()
        self.update(ALWAYS)
        self.kept.clear()
        self.old_hooks = False
