"""The stance: whether compiled callables may compile, or use what is compiled; one for the whole process.

`torch.compiler.set_stance` counts as well, where stator's own stance is the default one. Torch keeps it in a module
that it loads when it is first needed: `sys.modules` is watched for that module, then its namespace for the stance.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Literal, get_args

from stator import _entry
from stator.errors import InvalidArgument, InvalidOptions, RecompileError

Stance = Literal["default", "force_eager", "eager_on_recompile", "fail_on_recompile"]
STANCES: tuple[str, ...] = get_args(Stance)

TORCH_HOME = "torch._dynamo.eval_frame"

_own = "default"
_current = "default"


def current() -> str:
    """The stance of the process."""
    _settle()
    return _current


def _set(name: str) -> None:
    global _own
    _own = name
    _settle()


def _settle() -> None:
    """Stator's own stance, or that of torch; one that torch alone has means nothing here."""
    global _current
    name = _own if _own != "default" else _of_torch()
    _current = name if name in STANCES else "default"
    _entry.set_eager_only(_current == "force_eager")


def _of_torch() -> str:
    home = vars(sys.modules.get(TORCH_HOME, sys))
    return getattr(home.get("_stance"), "stance", "default")


def _look_at_torch() -> None:
    """The next call after something changed there comes here first."""
    home = sys.modules.get(TORCH_HOME)
    _entry.watch(sys.modules if home is None else vars(home), _look_at_torch)
    _settle()


_look_at_torch()


def may_compile(function: str, reasons: Callable[[], Sequence[str]]) -> bool:
    """Asked when no entry fits; raises `RecompileError` where that is an error. `reasons` gives the failed guards."""
    if _current == "fail_on_recompile":
        raise RecompileError(function, reasons())
    return _current == "default"


class stance:
    """Sets the stance: for good when just called, for a block as context manager, for each call as decorator.

    Args:
        name: `"default"`: compile where no entry fits. `"force_eager"`: compiled callables are the original ones.
            `"eager_on_recompile"`: use entries that fit, compile nothing, run everything else eagerly.
            `"fail_on_recompile"`: the same, but raise `stator.RecompileError` instead of running eagerly.
        skip_guard_eval_unsafe: not offered: guards are always checked.

    It belongs to the process, not to the thread. As with torch.compile, a first compilation counts as one more.
    """

    __slots__ = ("before", "name")

    def __init__(self, name: Stance = "default", *, skip_guard_eval_unsafe: bool = False) -> None:
        if skip_guard_eval_unsafe:
            raise InvalidOptions(
                "skip_guard_eval_unsafe is not offered: an entry whose guards fail gives wrong results"
            )
        if name not in STANCES:
            raise InvalidOptions(f"unknown stance {name!r:.60}. Stances are: {', '.join(STANCES)}")
        self.name: str = name
        self.before = _own
        _set(name)

    def __enter__(self) -> None:
        _set(self.name)

    def __exit__(self, *exc: object) -> None:
        _set(self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _set(self.before)  # a decorator sets nothing before its function is called
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise InvalidArgument(f"a stance decorates functions that run in one go, got {function!r:.60}")
        name: Any = self.name

        @functools.wraps(function)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            with stance(name):
                return function(*args, **kwargs)

        return with_stance


# The frame around a decorated function is part of the program.
STANCE_CODE: CodeType = next(
    constant for constant in stance.__call__.__code__.co_consts if isinstance(constant, CodeType)
)
