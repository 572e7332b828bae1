"""What calls do, remembered: for all captures, or for the one whose symbols are in it."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stator.shapes.polynomial import Polynomial
from stator.tensors import counting
from stator.tensors.memo import memo
from stator.tensors.meta import Meta, SymbolicMeta
from stator.tensors.modes import State
from stator.tensors.plan import Plan
from stator.tensors.planning import plan_of
from stator.tensors.rules.table import hint
from stator.tensors.signals import DataDependent
from stator.tensors.targets import Target
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def plan_for(
    recorder: Recorder,
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    found: list[TracedTensor],
    key: Any,
    state: State,
) -> Plan:
    """What a call does that is not in the memo; what knows symbols of this capture is remembered for it only."""
    symbols = recorder.symbols
    symbolic = symbols is not None and is_symbolic(key)
    plans = symbols.plans if symbolic and symbols is not None else memo.plans
    known: Plan | None = None if target.unique else plans.get(key)
    if known is not None:
        return known
    start = key if target.unique else at_start(key)
    if start is not key and (there := plans.get(start)) is not None and there.is_anywhere():
        plans[key] = there
        return there
    if counting.counts(target.func, args, kwargs) and (followed := recorder.follow()) is not None:
        counted = counting.plan(target.func, args, kwargs, followed, state)
        if counted is not None:
            return counted
    made, symbolic = _made(recorder, target.func, args, kwargs, found, state, symbolic)
    if target.opaque:
        return replace(made, pure=False, silent=False)
    if made.bindings or target.unique:
        return made
    if symbolic:
        assert recorder.symbols is not None
        plans = recorder.symbols.plans
        plans[key] = made
    else:
        memo.add(key, made)
    if start is not key and made.is_anywhere():
        plans[start] = made
    return made


def _made(
    recorder: Recorder,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    found: list[TracedTensor],
    state: State,
    symbolic: bool,
) -> tuple[Plan, bool]:
    """A plan, and whether it belongs to this capture: some calls make symbols."""
    if not symbolic:
        if recorder.symbols is not None:  # numbers that are constants by now are nothing for the memo of all captures
            args, kwargs = hint(args), hint(kwargs)
        try:
            return plan_of(func, args, kwargs, found, state), False
        except DataDependent:
            if recorder.follow() is None:
                raise
    return plan_of(func, args, kwargs, found, state, recorder.symbols, recorder.symbolic_mode), True


def is_symbolic(key: Any) -> bool:
    """Whether symbolic numbers are in a key of the memo."""
    kind = type(key)
    if kind is tuple:
        return any(is_symbolic(part) for part in key)
    return kind is SymbolicMeta or kind is Polynomial


def at_start(key: Any) -> Any:
    """The key of the same call on tensors that begin where their memory does; the same object if they do."""
    if type(key) is tuple:
        parts = tuple(map(at_start, key))
        return key if all(map(operator.is_, parts, key)) else parts
    return key.at_start() if isinstance(key, Meta) else key
