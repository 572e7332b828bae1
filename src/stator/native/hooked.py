"""What a module does that has hooks on the way forward, spelt out: torch's own code looks hooks up by number.

Torch numbers all hooks of the process. Here they are known by their order (`runtime/module_hooks.py`).
"""

from __future__ import annotations

import dis
from collections import OrderedDict
from types import CodeType
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules import module as module_globals

from stator.code.hidden import HOOKS_FILE


class Kind(NamedTuple):
    """Hooks of one kind: attributes of a module and tables for all modules, each for hooks and for their flags."""

    own: str
    own_flags: str
    for_all: Any
    for_all_flags: Any


def for_all(name: str) -> Any:
    """The table for all modules; some attributes have none."""
    return vars(module_globals).get(f"_global{name}", NONE)


NONE: Any = OrderedDict()
BEFORE, AFTER = (
    Kind(name, f"{name}_with_kwargs", for_all(name), for_all(f"{name}_with_kwargs"))
    for name in ("_forward_pre_hooks", "_forward_hooks")
)


def call_hooked(module: Any, args: Any, kwargs: Any) -> Any:
    """What a module does that has hooks on the way forward."""
    forward = module.forward
    for hook, number in hooks_before(module):
        if takes_more_before(module, number):
            given = hook(module, args, kwargs)
            if given is not None:
                args, kwargs = given if isinstance(given, tuple) and len(given) == 2 else refused(given)
        else:
            given = hook(module, args)
            if given is not None:
                args = given if isinstance(given, tuple) else (given,)
    result = forward(*args, **kwargs)
    for hook, number in hooks_after(module):
        if takes_more_after(module, number):
            given = hook(module, args, kwargs, result)
        else:
            given = hook(module, args, result)
        if given is not None:
            result = given
    finished(module)
    return result


def refused(given: Any) -> Any:
    """What torch says about a hook that gives something else than arguments."""
    raise RuntimeError(f"{REFUSAL}{given}.")


def hooks_before(module: Any) -> Any:
    """The hooks there are now, in order, and their numbers: what tells whether they take keyword arguments."""
    return listed(BEFORE, module)


def hooks_after(module: Any) -> Any:
    """The same for those behind forward."""
    return listed(AFTER, module)


def listed(kind: Kind, module: Any) -> Any:
    """Where numbers matter."""
    return [(hook, number) for number, hook in (*kind.for_all.items(), *getattr(module, kind.own).items())]


def takes_more_before(module: Any, number: Any) -> Any:
    """Whether a hook is given keyword arguments, too, by now."""
    return flagged(BEFORE, module, number)


def takes_more_after(module: Any, number: Any) -> Any:
    """The same for those behind forward."""
    return flagged(AFTER, module, number)


def flagged(kind: Kind, module: Any, number: Any) -> Any:
    """A flag of the module's holds for hooks of all modules, too."""
    return number in getattr(module, kind.own_flags) or number in kind.for_all_flags


def finished(module: Any) -> None:
    """The hooks have run."""


PARTS = (
    call_hooked,
    refused,
    hooks_before,
    hooks_after,
    listed,
    takes_more_before,
    takes_more_after,
    flagged,
    finished,
)
for _function in PARTS:
    _function.__code__ = _function.__code__.replace(co_filename=HOOKS_FILE)


def lines_of_calls(code: CodeType) -> list[int]:
    """The lines on which hooks and forward are called, in order."""
    loads = [each for each in dis.get_instructions(code) if each.opname in ("LOAD_FAST", "LOAD_DEREF")]
    return [each.positions.lineno or 0 for each in loads if each.argval in CALLED and each.positions is not None]


CALLED = frozenset({"hook", "forward", "forward_call"})
CALL = nn.Module._call_impl.__code__
INNER = next(one for one in CALL.co_consts if type(one) is CodeType)
REFUSAL = next(text for text in INNER.co_consts if type(text) is str and "pre-hook must return" in text)
TORCH_LINES = dict(zip(lines_of_calls(call_hooked.__code__), lines_of_calls(INNER), strict=False))
