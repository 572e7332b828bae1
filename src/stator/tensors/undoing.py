"""Graphs that write to inputs and may fail afterwards: CPython runs such a call again, from what was there before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

from stator.shapes.arithmetic import number_of
from stator.tensors.meta import Meta
from stator.tensors.plan import New
from stator.tensors.targets import called
from stator.tensors.traced import Storage

MOST_SAVED = 2**20  # bytes that are copied before a graph runs, if anything else will do

# Writes that come to the same when they are repeated after they failed half-way.
_OVERWRITING = frozenset({"setitem", "index_copy_", "index_fill_"})
_INDEXING = frozenset({"getitem", "setitem", "index_copy_", "index_fill_", "index_select"})


class Failures:
    """Which nodes of a graph may fail, and what they find written by then."""

    def __init__(self, failing: set[fx.Node], writers: set[fx.Node], homes: Mapping[fx.Node, Storage]) -> None:
        self.failing = failing
        self.writers = writers  # to the memory of inputs
        self.homes = homes

    def come_late(self, graph: fx.Graph, inputs: Mapping[str, Meta]) -> bool:
        """Whether a node may fail after an input was written to, if nodes run in order."""
        written = False
        passed: set[Any] = set()  # indices that were in range already
        for node in graph.nodes:
            if node in self.failing:
                index = self.index_of(node, inputs)
                if index is None or index not in passed:
                    if written or (node in self.writers and called(node) not in _OVERWRITING):
                        return True
                    passed.add(index)
            written = written or node in self.writers
        return False

    def index_of(self, node: fx.Node, inputs: Mapping[str, Meta]) -> Any:
        """What decides whether an index is in range: its parts, which nobody writes to, and the sizes."""
        if called(node) not in _INDEXING or not isinstance(node.args[0], fx.Node):
            return None
        taken = node.args[0]
        made = getattr(taken.meta, "value", None)
        meta = inputs.get(taken.name) if taken.op == "placeholder" else made.meta if type(made) is New else None
        parts = node.args[1:2] if called(node).endswith("item") else node.args[1:3]
        homes = [self.homes.get(part) for part in nodes_in(parts)]
        if meta is None or node.kwargs or any(home is None or home.writes for home in homes):
            return None
        return str(parts), tuple(map(number_of, meta.size))


def nodes_in(value: Any) -> Iterable[fx.Node]:
    if isinstance(value, fx.Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from nodes_in(part)
    elif isinstance(value, slice):
        yield from nodes_in((value.start, value.stop, value.step))


def can_be_undone(before: Meta, after: Meta) -> bool:
    """Whether putting the data back makes a tensor what it was: no write gave it a new form or history."""
    return before is after and not before.inference and (before.leaf or not before.requires_grad)


def save(*tensors: torch.Tensor) -> list[tuple[torch.Tensor, int]]:
    """The data of tensors that a graph is about to write to, and how often they were written to before."""
    return [(tensor.detach().clone(), tensor._version) for tensor in tensors]


def put_back(saved: list[tuple[torch.Tensor, int]], *tensors: torch.Tensor) -> None:
    """Makes tensors what they were: also for autograd, which may have kept them for backward."""
    with torch.no_grad():
        for tensor, (before, version) in zip(tensors, saved, strict=True):
            tensor.detach().copy_(before)
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
