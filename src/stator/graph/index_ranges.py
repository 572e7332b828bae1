"""Graphs that write to large inputs and may fail for an index out of range only: the indices are looked at before.

Compiled code may write at any moment, and copies of what it writes to would cost more than the program itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import fx

from stator.graph.module import eager_callable
from stator.graph.prologue import needed_first, part
from stator.tensors.meta import Meta
from stator.tensors.plan import New

MOST = 16  # nodes that are worth running twice


class Unknown(Exception):
    """An operation may fail for another reason, or nobody knows what is in range."""


class Range(NamedTuple):
    """What an index may be; `other` besides."""

    index: fx.Node
    low: int
    high: int
    other: int | None = None


class OutOfRange(Exception):
    """An index that the graph would fail for; nothing has been written."""


Metas = Callable[[Any], Meta]


def along(node: fx.Node, metas: Metas) -> Iterator[Range]:
    """`index_select(x, dim, index)` and the like."""
    if len(node.args) < 3:  # some are given by name
        raise Unknown
    taken, dim, index = node.args[:3]
    if type(dim) is not int or not isinstance(index, fx.Node):
        raise Unknown
    yield Range(index, 0, size_of(metas(taken), dim) - 1)


def embedded(node: fx.Node, metas: Metas) -> Iterator[Range]:
    if not 2 <= len(node.args) <= 3 or node.kwargs.get("max_norm") is not None:
        raise Unknown
    index, weight = node.args[:2]
    if not isinstance(index, fx.Node):
        raise Unknown
    yield Range(index, 0, size_of(metas(weight), 0) - 1)


def classes(node: fx.Node, metas: Metas) -> Iterator[Range]:
    """Targets of a loss."""
    if len(node.args) != 2 or not isinstance(node.args[1], fx.Node) or metas(node.args[1]).dtype.is_floating_point:
        raise Unknown
    scores = metas(node.args[0])
    ignored: Any = node.kwargs.get("ignore_index", -100)
    if type(ignored) is not int:
        raise Unknown
    yield Range(node.args[1], 0, size_of(scores, 1 if len(scores.size) > 1 else 0) - 1, ignored)


def items(node: fx.Node, metas: Metas) -> Iterator[Range]:
    """`x[:, index]`."""
    taken = metas(node.args[0])
    parts = node.args[1] if type(node.args[1]) is tuple else (node.args[1],)
    dim = 0
    for place, one in enumerate(parts):
        if one is ...:
            dim = len(taken.size) - sum(later is not None for later in parts[place + 1 :])
        elif isinstance(one, fx.Node):
            dtype = metas(one).dtype
            if dtype.is_floating_point or dtype in (torch.bool, torch.uint8):
                raise Unknown
            size = size_of(taken, dim)
            yield Range(one, -size, size - 1)
            dim += 1
        elif type(one) is int or (type(one) is slice and not any(map(is_node, (one.start, one.stop, one.step)))):
            dim += 1
        elif one is not None:
            raise Unknown


def is_node(value: Any) -> bool:
    return isinstance(value, fx.Node)


def size_of(meta: Meta, dim: int) -> int:
    size = meta.size[dim]
    if type(size) is not int:
        raise Unknown
    return size


METHODS = ("index_select", "index_copy", "index_add", "index_fill", "gather", "scatter", "scatter_add")
ROWS: dict[Any, Callable[[fx.Node, Metas], Iterator[Range]]] = {
    F.embedding: embedded,
    F.cross_entropy: classes,
    F.nll_loss: classes,
    operator.getitem: items,
    operator.setitem: items,
    **{getattr(torch, name): along for name in METHODS},
    **dict.fromkeys(METHODS, along),
    **{f"{name}_": along for name in METHODS if name != "index_select" and name != "gather"},
}


def ranges_of(failing: Iterable[fx.Node], inputs: Mapping[str, Any]) -> list[Range]:
    """What keeps these nodes from failing."""

    def meta(node: Any) -> Meta:
        made = inputs.get(node.name) if node.op == "placeholder" else getattr(node.meta, "value", None)
        made = made.meta if type(made) is New else made
        if type(made) is not Meta:
            raise Unknown
        return made

    found: list[Range] = []
    for node in failing:
        row = ROWS.get(node.target)
        if row is None:
            raise Unknown
        found += row(node, meta)
    return found


def looking_first(
    compiled: Callable[..., Any],
    module: fx.GraphModule,
    failing: Iterable[fx.Node],
    inputs: Mapping[str, Any],
    writers: set[fx.Node],
    effects: set[fx.Node],
    homes: Any,
) -> Callable[..., Any] | None:
    """Compiled code that raises OutOfRange before it writes; None if it may fail in another way."""
    try:
        ranges = ranges_of(failing, inputs)
    except Unknown:
        return None
    ends = [one.index for one in ranges]
    needed = needed_first(module.graph, ends, writers, effects, homes, MOST)
    if needed is None or any(homes[index].mutated for index in ends if index in homes):
        return None
    indices = eager_callable(part(module.graph, needed, ends))

    def run(*args: Any) -> Any:
        with torch.no_grad():
            for index, (_, low, high, other) in zip(indices(*args), ranges, strict=True):
                check(index, low, high, other)
        return compiled(*args)

    return run


def check(index: torch.Tensor, low: int, high: int, other: int | None) -> None:
    if index.numel() == 0:
        return
    smallest, largest = (int(bound) for bound in torch.aminmax(index))
    if low <= smallest and largest <= high:
        return
    if other is None or bool(((index != other) & ((index < low) | (index > high))).any()):
        raise OutOfRange
