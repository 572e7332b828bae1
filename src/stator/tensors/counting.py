"""Operations whose result has as many rows as its data has elements that are not zero: plans without FakeTensor."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from stator.shapes.questions import NotKnown
from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import Symbols
from stator.tensors.meta import Meta
from stator.tensors.modes import State
from stator.tensors.plan import Group, New, Plan
from stator.tensors.rules.layout import is_row_major, row_major
from stator.tensors.rules.table import CPU, Decline, interned, is_ordinary, need
from stator.tensors.traced import TracedTensor

Shape = tuple[tuple[Any, ...], tuple[Any, ...]]  # sizes and strides
Layout = Callable[[Any], Shape]  # of a result with so many rows


def _nonzero(meta: Meta) -> tuple[Meta, torch.dtype, Layout]:
    need(meta.size)
    return meta, torch.int64, lambda count: ((count, len(meta.size)), (1, count))


def _masked(meta: Meta, mask: Meta) -> tuple[Meta, torch.dtype, Layout]:
    need(isinstance(mask, Meta) and mask.dtype is torch.bool and mask.size)
    rank = len(mask.size)
    need(is_row_major(meta) and is_row_major(mask) and tuple(meta.size[:rank]) == tuple(mask.size))

    def layout(count: Any) -> Shape:
        size = (count, *meta.size[rank:])
        return size, row_major(size)

    return mask, meta.dtype, layout


def _masked_select(meta: Meta, mask: Meta) -> tuple[Meta, torch.dtype, Layout]:
    need(isinstance(mask, Meta) and len(mask.size) == len(meta.size))
    return _masked(meta, mask)


COUNTING: dict[Any, Callable[..., tuple[Meta, torch.dtype, Layout]]] = {
    torch.nonzero: _nonzero,
    torch.Tensor.nonzero: _nonzero,
    torch.where: _nonzero,
    torch.argwhere: _nonzero,
    torch.Tensor.argwhere: _nonzero,
    torch.masked_select: _masked_select,
    torch.Tensor.masked_select: _masked_select,
    operator.getitem: _masked,
}


_SELECTING = frozenset({torch.masked_select, torch.Tensor.masked_select})

# Functions that give the same one vector per dimension.
_APART = frozenset({torch.where, torch.nonzero, torch.Tensor.nonzero})


def counts(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether there may be a plan for a call."""
    if func not in COUNTING or not args or any(type(arg) is not TracedTensor for arg in args):
        return False
    if kwargs and (func not in _APART or kwargs not in ({"as_tuple": True}, {"as_tuple": False})):
        return False
    if func is torch.where and len(args) > 1:
        return False
    return func is not operator.getitem or args[1]._meta.dtype is torch.bool


def plan(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], symbols: Symbols, state: State) -> Plan | None:
    """The plan of a call, with the symbol that it makes; None if FakeTensor has to be asked."""
    metas = [arg._meta for arg in args]
    if state.autocast is not None or state.inference or not all(map(is_ordinary, metas)):
        return None
    try:
        with symbols.known_only():
            counted, dtype, layout = COUNTING[func](*metas)
            most = math.prod(counted.size)
            need(most != 0)
    except (Decline, NotKnown, TypeError):
        return None
    symbol, count = symbols.count(most if type(most) is int else None)
    if func is torch.where or kwargs.get("as_tuple"):
        return _apart(len(counted.size), symbol, count, symbols)
    grad = state.grad and metas[0].requires_grad and dtype.is_floating_point
    with symbols.known_only():
        size, stride = layout(count)
        meta = interned(size, stride, 0, (dtype, CPU, grad, not grad, False, False, False), symbols)
    return Plan(New(meta), meta, (), (), True, False, {symbol: _place()})


# What makes masks, and gives the same one for the same operands.
_CONDITIONS = frozenset({
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    operator.invert, operator.and_, operator.or_, operator.xor,
    *(getattr(owner, f"logical_{name}") for owner in (torch, torch.Tensor) for name in ("not", "and", "or", "xor")),
    *(getattr(owner, f"is{name}") for owner in (torch, torch.Tensor) for name in ("nan", "inf", "finite")),
})  # fmt: skip
DEEPEST = 4  # conditions within conditions


class Counts:
    """How many rows masks gave: `x[mask]` and `y[mask]` have as many, which is assumed, and checked as all that is."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def note(self, func: Any, args: tuple[Any, ...], made: Any, writes: int) -> None:
        """A call has counted; `writes`: how many the graph has done by now."""
        rows = made[0] if type(made) is tuple and made else made
        count = rows._meta.size[0] if type(rows) is TracedTensor and rows._meta.size else None
        if type(count) is not TracedInt or not count.symbols.is_unbacked(count):
            return
        mask = args[-1]
        if func in _SELECTING and tuple(args[0]._meta.size) != tuple(mask._meta.size):
            return
        known = self._known.setdefault(_key(mask, writes), count)
        if known is not count:
            symbols, symbol, first = count.symbols, count.expr, known.expr
            symbols.suppose(operator.eq, count, known)
            if symbol.is_Symbol and first.is_Symbol and symbol != first:  # torch does not conclude that two are equal
                ranges = symbols.env.var_to_range
                if ranges[first].issubset(ranges[symbol]):
                    symbols.env._set_replacement(symbol, first, "one mask")

    def release(self) -> None:
        self._known.clear()


def _key(mask: TracedTensor, writes: int) -> Any:
    """A mask as it is now; the same condition made twice gives the same one as long as nothing is written."""
    node = mask._node
    made = _made_of(node, DEEPEST)
    return (node, len(mask._storage.writes)) if made is node else (made, writes)


def _made_of(value: Any, depth: int) -> Any:
    """A condition and what it is made of; anything else as it is."""
    if depth and isinstance(value, fx.Node) and value.target in _CONDITIONS and not value.kwargs:
        return value.target, *(_made_of(arg, depth - 1) for arg in value.args)
    return value


def _apart(rank: int, symbol: Any, count: Any, symbols: Symbols) -> Plan:
    """One vector of positions for each dimension, one behind the other in memory."""
    facts = (torch.int64, CPU, False, True, False, False, False)
    metas = [interned((count,), (1,), i * count, facts, symbols) for i in range(rank)]
    items = tuple(New(meta, twin=None if i == 0 else 0) for i, meta in enumerate(metas))
    return Plan(Group(tuple, items), None, (), (), True, False, {symbol: (pytree.SequenceKey(0), *_place())})


def _place() -> tuple[Any, ...]:
    """Where in the result the number of rows is."""
    from torch.fx.experimental.symbolic_shapes import CallMethodKey  # heavy

    return CallMethodKey("size"), pytree.SequenceKey(0)
