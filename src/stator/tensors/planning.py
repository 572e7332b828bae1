"""What a call does that the memo does not know: a rule answers, or FakeTensor is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stator.shapes.symbols import Symbols
from stator.tensors.cases import plan_by_cases
from stator.tensors.fakes import WatchingMode, own_mode
from stator.tensors.kernel_warnings import with_warnings
from stator.tensors.modes import State
from stator.tensors.plan import Plan
from stator.tensors.propagate import propagate
from stator.tensors.rules import elementwise, gathering, inplace, layers, views  # noqa: F401 (they fill the table)
from stator.tensors.rules.table import DEBUG, agree, answer
from stator.tensors.traced import TracedTensor


def plan_of(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TracedTensor],
    state: State,
    symbols: Symbols | None = None,
    mode: Callable[[], WatchingMode] = own_mode,
) -> Plan:
    """The plan of one call in the current torch state; `symbols` and what gives their fake mode if there are any among
    the arguments."""
    if symbols is not None:

        def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
            return plan_of(func, args, kwargs, tensors, state, symbols, mode)

        plan = plan_by_cases(args, kwargs, tensors, symbols, asked)
        if plan is not None:
            return plan
    return _plan_of(func, args, kwargs, tensors, state, symbols, mode)


def _plan_of(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TracedTensor],
    state: State,
    symbols: Symbols | None,
    mode: Callable[[], WatchingMode],
) -> Plan:
    plan = None
    if symbols is None:
        plan = answer(func, args, kwargs, tensors, state)
    else:
        with symbols.known_only():
            plan = answer(func, args, kwargs, tensors, state, symbols)
    if plan is None:
        return with_warnings(propagate(func, args, kwargs, tensors, mode()), func, args, kwargs)
    if DEBUG:
        agree(func, plan, propagate(func, args, kwargs, tensors, mode()), symbols)
    return with_warnings(plan, func, args, kwargs)
