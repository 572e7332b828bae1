"""Frames below a break: Python functions that CPython calls while it executes a breaking instruction."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

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


class Below(dict[int, Any]):
    """What takes the place of frames, by the address of their code object; None: CPython runs them."""

    __slots__ = ("kept", "make")

    def __init__(self, make: Callable[[CodeType], Any]) -> None:
        super().__init__()
        self.make = make
        self.kept: dict[int, Any] = {}  # for each key: takes both out when the code object dies

    def decide(self, code: CodeType) -> Any:
        takers = (self.pop, self.kept.pop)  # in C: no interruption
        self.kept[id(code)] = [weakref.ref(code, partial(taker, id(code))) for taker in takers]
        return self.make(code) if may_work(code) else None

    def clear(self) -> None:
        super().clear()
        self.kept.clear()
