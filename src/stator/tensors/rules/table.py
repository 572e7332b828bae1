"""The table of rules, and how the answer of one becomes a plan.

A rule is called like the operation itself, with `Meta` for tensors. It returns what comes out, or raises `Decline` (or
anything else, such as the `TypeError` of arguments it does not know): then FakeTensor is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from stator.errors import InternalError
from stator.tensors.meta import Meta, intern
from stator.tensors.modes import State
from stator.tensors.plan import Constant, Group, New, Plan, Same
from stator.tensors.rules.layout import row_major
from stator.tensors.traced import TracedTensor

Rule = Callable[..., Any]

# STATOR_DEBUG_META=1: each answer is compared with FakeTensor's.
DEBUG = os.environ.get("STATOR_DEBUG_META", "") not in ("", "0")

CPU = torch.device("cpu")
FLOATS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
INTEGERS = frozenset({torch.int64, torch.int32})
KNOWN = FLOATS | INTEGERS | {torch.bool}

_rules: dict[Any, Rule] = {}
_take_empty: set[Any] = set()


class Decline(Exception):
    """The rule does not know."""


def need(condition: object) -> None:
    """Declines unless the condition holds."""
    if not condition:
        raise Decline


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new tensor with memory of its own."""

    size: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...] | None = None  # None: contiguous
    grad: bool = True  # the result is differentiable
    pure: bool = True
    mutated: tuple[int, ...] = ()  # tensors that are written to


@dataclass(frozen=True, slots=True)
class View:
    """A view of the first tensor."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # further on in the memory


SAME = Same(0)  # the very object that came in first


def register(rule: Rule, functions: Iterable[Any], empty: bool = False) -> None:
    """Makes `rule` answer for these functions; `empty`: also for tensors without elements."""
    for function in functions:
        _rules[function] = rule
        if empty:
            _take_empty.add(function)


def answer(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[TracedTensor], state: State
) -> Plan | None:
    """The plan of a call; None when it is not known."""
    rule = _rules.get(func)
    if rule is None or state.autocast is not None or state.inference:
        return None
    for traced in tensors:
        meta = traced._meta
        if not _is_ordinary(meta) or (0 in meta.size and func not in _take_empty):
            return None
    try:
        made = rule(*map(_metas, args), **{name: _metas(value) for name, value in kwargs.items()})
        return _plan(made, kwargs, tensors, state)
    except Exception:  # also what the rule was not written for
        return None


def agree(func: Any, plan: Plan, asked: Plan) -> None:
    """Fails unless a rule and FakeTensor say the same."""
    if plan != asked:
        raise InternalError(f"the rule for {func} says {plan}, FakeTensor {asked}")


def _is_ordinary(meta: Meta) -> bool:
    """Plain tensors on the CPU: all that rules are written for."""
    return meta.device == CPU and meta.dtype in KNOWN and not (meta.conj or meta.neg or meta.inference)


def _metas(value: Any) -> Any:
    kind = type(value)
    if kind is TracedTensor:
        return value._meta
    if kind is list or kind is tuple:
        return kind(map(_metas, value))
    return value


def _plan(made: Any, kwargs: dict[str, Any], tensors: list[TracedTensor], state: State) -> Plan:
    grad = state.grad and any(traced._meta.requires_grad for traced in tensors)
    kind = type(made)
    if kind is Fresh:
        new = _fresh(made, grad)
        if made.mutated:  # positions are those of the rule's parameters
            need(len(set(map(id, tensors))) == len(tensors))
            need(not any(type(value) is TracedTensor for value in kwargs.values()))
        pure = made.pure and not made.mutated
        return Plan(new, None if made.mutated else new.meta, (), made.mutated, pure, False)
    if kind is Same or kind is Constant:
        return Plan(made, None, (), (), True, True)
    need(tensors)
    first = tensors[0]._meta
    if kind is View:
        return Plan(_view(made, first, state.grad), None, (), (), True, False)
    need(kind is tuple)
    return Plan(Group(tuple, tuple(_view(item, first, state.grad) for item in made)), None, (), (), True, False)


def _fresh(made: Fresh, grad: bool) -> New:
    grad = grad and made.grad and made.dtype.is_floating_point
    size = tuple(made.size)
    stride = row_major(size) if made.stride is None else made.stride
    return New(intern((size, stride, 0, made.dtype, CPU, grad, not grad, False, False, False)))


def _view(made: View, base: Meta, recording: bool) -> New:
    """A view made under no_grad claims to require grad like its base, and to be a leaf."""
    grad = base.requires_grad
    leaf = not (grad and recording)
    key = (made.size, made.stride, base.offset + made.offset, base.dtype, CPU, grad, leaf, False, False, False)
    return New(intern(key), 0, 0)
