"""Floats that a program reads from small tensors, such as the step of an optimizer.

What leads from the inputs of a graph to such a number is a part of the graph of its own, which runs before: on copies,
so that nothing is written to. The number is a Python float then, and what is calculated of it is exactly what Python
calculates.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from stator.tensors.failing import may_draw
from stator.tensors.traced import Storage, TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

LARGEST = 1  # elements of a tensor that leads to a number: a counter, a rate
MOST = 8192  # operations


class NotReadable(Exception):
    """A number that more than small tensors lead to."""


class Stage:
    """Numbers that are read together, and the nodes that lead to them."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.needed: set[fx.Node] = set()
        self.reads: list[tuple[fx.Node, fx.Node]] = []  # what is read, and the last node before
        self.done: list[fx.Node] = []  # evaluated so far, in order
        self.values: dict[fx.Node, Any] = {}

    def read(self, node: fx.Node, found: set[fx.Node], last: fx.Node) -> tuple[int, float]:
        """The number of a reading, and its value now."""
        with self.recorder.paused(), torch.no_grad():
            self.evaluate(found - self.needed)
            value = self.values[node].item()
        self.reads.append((node, last))
        return len(self.reads) - 1, value

    def evaluate(self, found: set[fx.Node]) -> None:
        """Runs the nodes on copies of the real tensors; from the start if some come before what has been run."""
        self.needed |= found
        if self.done and any(node < self.done[-1] and node.op != "placeholder" for node in found):
            self.done, self.values, found = [], {}, set(self.needed)
        for node in sorted(found):
            if node.op == "placeholder":
                self.values[node] = self.recorder.tensor(node.name).detach().clone()
            else:
                self.values[node] = run(node, self.values)
                self.done.append(node)

    def inputs(self) -> list[Any]:
        """The real tensors that the numbers are read from, and those made of numbers that were read before."""
        return [self.recorder.tensor(node.name) for node in self.order() if node.op == "placeholder"]

    def order(self) -> list[fx.Node]:
        return sorted(self.needed)

    def graph(self) -> fx.Graph:
        """A graph that gives the numbers for these tensors."""
        graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
        order = self.order()
        for node in (node for node in order if node.op == "placeholder"):
            made[node] = graph.placeholder(node.name)
        for node in list(made):
            made[node] = graph.call_method("clone", (graph.call_method("detach", (made[node],)),))
        rest = [node for node in order if node not in made]
        waiting: dict[int, list[int]] = {}
        for index, (_, last) in enumerate(self.reads):
            waiting.setdefault(bisect.bisect_right(rest, last), []).append(index)
        results: dict[int, fx.Node] = {}
        for place in range(len(rest) + 1):
            for index in waiting.get(place, ()):
                results[index] = graph.call_method("item", (made[self.reads[index][0]],))
            if place < len(rest):
                made[rest[place]] = graph.node_copy(rest[place], made.__getitem__)
        graph.output([results[index] for index in range(len(self.reads))])
        return graph


class Readings:
    """The numbers that one capture reads, in stages: those of one may depend on numbers of the ones before."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.homes: dict[fx.Node, Storage] = {}  # memory of the tensors that nodes make
        self.writers: set[fx.Node] = set()
        self.stages: list[Stage] = []
        self.stage_of: Callable[[torch.Tensor], int | None] = lambda tensor: None  # a tensor made of a number: when

    def read(self, traced: TracedTensor) -> tuple[int, int, float] | None:
        """Stage and number of a reading, and its value now; None if it cannot be read before the graph runs."""
        meta, recorder = traced._meta, self.recorder
        if recorder.sub is not None or meta.dtype not in FLOATS or math.prod(meta.size) != 1:
            return None
        if meta.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return None
        last = next(reversed(recorder.graph.nodes))
        try:
            found = self.require(traced._node)
            stage = max(map(self.check, found))
        except NotReadable:
            return None
        while len(self.stages) <= stage:
            self.stages.append(Stage(recorder))
        return stage, *self.stages[stage].read(traced._node, found, last)

    def require(self, node: fx.Node) -> set[fx.Node]:
        """The nodes that make a tensor what it is now."""
        found: set[fx.Node] = set()
        pending: list[tuple[fx.Node, fx.Node | None]] = [(node, None)]
        while pending:
            node, before = pending.pop()
            writes = self.homes[node].writes if node in self.homes else []
            for this in (node, *(write for write in writes if before is None or write < before)):
                if this in found:
                    continue
                if len(found) > MOST:
                    raise NotReadable
                found.add(this)
                pending.extend((arg, this) for arg in this.all_input_nodes)
        return found

    def check(self, node: fx.Node) -> int:
        """Refuses inputs that are large or none, and operations that draw numbers or have other effects.

        Gives the stage that the node belongs to.
        """
        if node in self.recorder.kept and (node not in self.writers or may_draw(node)):
            raise NotReadable
        if node.op == "placeholder":
            real = self.recorder.tensor(node.name)
            if not isinstance(real, torch.Tensor):
                raise NotReadable
            if (stage := self.stage_of(real)) is not None:
                return stage
            if not self.recorder.is_outside(real):
                raise NotReadable
            if real.device.type != "cpu" or real.numel() > LARGEST or real.dtype.is_complex:
                raise NotReadable
        elif node.op not in ("call_function", "call_method"):
            raise NotReadable
        return 0


def run(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return node.target(*args, **kwargs)


FLOATS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
