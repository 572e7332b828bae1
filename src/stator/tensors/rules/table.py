"""The table of rules, and how the answer of one becomes a plan.

A rule is called like the operation itself, with `Meta` for tensors. It returns what comes out, or raises `Decline` (or
anything else, such as the `TypeError` of arguments it does not know): then FakeTensor is asked.

Sizes, strides and arguments may be symbolic ints. A rule calculates with them as with ints; a comparison that depends
on the call becomes a guard there and then, or a `Decline` if the value is not known in this call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch

from stator.errors import InternalError
from stator.shapes.arithmetic import number_of
from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import Symbols
from stator.tensors.meta import Meta, SymbolicMeta, intern, intern_symbolic
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


def is_meta(value: Any) -> bool:
    """Whether an argument is a tensor."""
    return isinstance(value, Meta)


def hint(value: Any) -> Any:
    """The same arguments with the values that symbolic ints have in this call, or may have if only data tells."""
    kind = type(value)
    if kind is TracedInt:
        found = value.symbols.unknowns.guessed(value.number)
        need(found is not None)
        return found
    if kind in (tuple, list, torch.Size):
        return (list if kind is list else tuple)(map(hint, value))
    if kind is slice:
        return slice(hint(value.start), hint(value.stop), hint(value.step))
    if kind is dict:
        return {name: hint(item) for name, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new tensor with memory of its own."""

    size: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...] | None = None  # None: contiguous
    grad: bool = True  # the result is differentiable
    pure: bool = True
    mutated: tuple[int, ...] = ()  # tensors that are written to
    near: bool = False  # it would be a view of the first tensor if a size were one
    itself: bool = False  # or that very tensor


@dataclass(frozen=True, slots=True)
class View:
    """A view of the first tensor."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # further on in the memory


@dataclass(frozen=True, slots=True)
class Written:
    """The first tensor, with other data; autograd is not involved, unless the tensor is part of a history already."""

    nothing: bool = False  # the call returns None
    recorded: bool = False  # it is, and stays so


SAME = Same(0)  # the very object that came in first


def register(rule: Rule, functions: Iterable[Any], empty: bool = False) -> None:
    """Makes `rule` answer for these functions; `empty`: also for tensors without elements."""
    for function in functions:
        _rules[function] = rule
        if empty:
            _take_empty.add(function)


def answer(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TracedTensor],
    state: State,
    symbols: Symbols | None = None,
) -> Plan | None:
    """The plan of a call; None when it is not known. `symbols`: of the symbolic numbers among the arguments."""
    rule = _rules.get(func)
    if rule is None or state.autocast is not None or state.inference:
        return None
    try:
        for traced in tensors:
            meta = traced._meta
            if not is_ordinary(meta) or (func not in _take_empty and 0 in meta.size):
                return None
        made = rule(*map(_metas, args), **{name: _metas(value) for name, value in kwargs.items()})
        return _plan(made, kwargs, tensors, state, symbols)
    except Exception:  # also what the rule was not written for
        return None


def agree(func: Any, plan: Plan, asked: Plan, symbols: Symbols | None = None) -> None:
    """Fails unless a rule and FakeTensor say the same."""
    if type(plan.result) is New and plan.result.near is not None:  # FakeTensor knows of no doubts
        plan = replace(plan, single=plan.result.meta)
    if plan == asked or func in INEXACT or (symbols is not None and func in _INEXACT_WITH_SYMBOLS):
        return
    samples = [{}] if symbols is None else symbols.unknowns.samples()
    for values in samples:
        if (one := spelt(plan, values)) != (other := spelt(asked, values)):
            raise InternalError(f"the rule for {func} says {one}, FakeTensor {other}")


# With symbols FakeTensor runs these as Python code that makes a copy or writes where eager does not.
_INEXACT_WITH_SYMBOLS: set[Any] = {torch.nn.functional.dropout}

# FakeTensor lays out some results of these in another way than eager: where channels lie next to each other, or
# strides are arbitrary because a size is one; or as the operands lie.
INEXACT: set[Any] = {
    torch.Tensor.logical_and,
    torch.Tensor.logical_or,
    torch.Tensor.logical_xor,
    torch.Tensor.masked_fill,
    torch.logical_and,
    torch.logical_or,
    torch.logical_xor,
    torch.masked_fill,
    torch.nn.functional.batch_norm,
    torch.nn.functional.group_norm,
    torch.nn.functional.interpolate,
    torch.nn.functional.layer_norm,
    torch.nn.functional.log_softmax,
    torch.max_pool1d,
    torch.nn.functional.max_pool1d,
    torch.nn.functional.scaled_dot_product_attention,
}


def spelt(value: Any, values: dict[Any, Any]) -> Any:
    """A plan in which metadata is spelt out, for some values of the symbols; where a size is one FakeTensor has other
    strides than eager, so they are left out."""
    if type(value) is SymbolicMeta:
        number = value.symbols.unknowns.at
        sizes, strides, offset = value.key[:3]
        size, stride = (tuple(number(part, values) for part in numbers) for numbers in (sizes, strides))
        return (size, _definite(size, stride), number(offset, values), *value.key[3:])
    if isinstance(value, Meta):
        return (value.key[0], _definite(*value.key[:2]), *value.key[2:])
    if type(value) in (tuple, list):
        return tuple(spelt(item, values) for item in value)
    if is_dataclass(value):
        return type(value), *(spelt(getattr(value, field.name), values) for field in fields(value) if field.compare)
    return value


def _definite(size: Any, stride: Any) -> tuple[Any, ...]:
    return tuple(None if length == 1 else step for length, step in zip(size, stride, strict=True))


def is_ordinary(meta: Meta) -> bool:
    """Plain tensors on the CPU: all that rules are written for."""
    return meta.device == CPU and meta.dtype in KNOWN and not (meta.conj or meta.neg or meta.inference)


def _metas(value: Any) -> Any:
    kind = type(value)
    if kind is TracedTensor:
        return value._meta
    if kind is list or kind is tuple:
        return kind(map(_metas, value))
    return value


def _plan(
    made: Any, kwargs: dict[str, Any], tensors: list[TracedTensor], state: State, symbols: Symbols | None
) -> Plan:
    grad = state.grad and any(traced._meta.requires_grad for traced in tensors)
    kind = type(made)
    if kind is Fresh:
        new = _fresh(made, grad, symbols)
        if made.mutated:  # positions are those of the rule's parameters
            need(len(set(map(id, tensors))) == len(tensors))
            need(not any(type(value) is TracedTensor for value in kwargs.values()))
        pure = made.pure and not made.mutated
        if made.near:  # a view made under no_grad claims to require grad, a copy does not
            need(tensors and (grad or not tensors[0]._meta.requires_grad))
            new = replace(new, near=0, itself=made.itself)
        alone = not (made.mutated or made.near)
        return Plan(new, new.meta if alone else None, (), made.mutated, pure, False)
    if kind is Same or kind is Constant:
        return Plan(made, None, (), (), True, True)
    need(tensors)
    if kind is Written:
        need((made.recorded or not grad) and len(set(map(id, tensors))) == len(tensors))
        return Plan(Constant(None) if made.nothing else SAME, None, (), (0,), False, False)
    first = tensors[0]._meta
    if kind is View:
        return Plan(_view(made, first, state.grad, symbols), None, (), (), True, False)
    need(kind is tuple)
    views = tuple(_view(item, first, state.grad, symbols) for item in made)
    return Plan(Group(tuple, views), None, (), (), True, False)


def _fresh(made: Fresh, grad: bool, symbols: Symbols | None) -> New:
    grad = grad and made.grad and made.dtype.is_floating_point
    size = tuple(made.size)
    stride = row_major(size) if made.stride is None else made.stride
    return New(interned(size, stride, 0, (made.dtype, CPU, grad, not grad, False, False, False), symbols))


def _view(made: View, base: Meta, recording: bool, symbols: Symbols | None) -> New:
    """A view made under no_grad claims to require grad like its base, and to be a leaf."""
    grad = base.requires_grad
    leaf = not (grad and recording)
    facts = (base.dtype, CPU, grad, leaf, False, False, False)
    return New(interned(made.size, made.stride, base.offset + made.offset, facts, symbols), 0, 0)


def interned(size: Any, stride: Any, offset: Any, facts: tuple[Any, ...], symbols: Symbols | None) -> Meta:
    """Metadata of a result."""
    if symbols is None:
        return intern((size, stride, offset, *facts))
    settled = symbols.unknowns.settled
    sizes = tuple([settled(number_of(number)) for number in size])
    strides = tuple([settled(number_of(number)) for number in stride])
    place = settled(number_of(offset))
    symbolic = any(type(number) is not int for number in (*sizes, *strides, place))
    key = (sizes, strides, place, *facts)
    return intern_symbolic(key, symbols) if symbolic else intern(key)
