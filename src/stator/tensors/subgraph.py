"""A graph inside of another one: what it uses of the graph around it becomes an input of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from stator.tensors.failing import may_fail
from stator.tensors.finish import remove_dead
from stator.tensors.meta import Meta, meta_of
from stator.tensors.modes import GraphState
from stator.tensors.nodes import NodeWriter
from stator.tensors.plan import New
from stator.tensors.signals import UnsupportedOp
from stator.tensors.traced import Storage, TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def left_its_graph() -> UnsupportedOp:
    return UnsupportedOp("a tensor", "it left the function that a transform or a branch was made of", "tensor-escaped")


class SubGraph:
    """`with SubGraph(recorder) as sub:` records what follows into a graph of its own."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.graph = fx.Graph()
        self.nodes = NodeWriter(self.graph, recorder.nodes.location)
        self.lifted: dict[fx.Node, fx.Node] = {}  # node of a graph around this one -> input
        self.storages: list[Storage] = []  # memory made by this graph
        self.written: list[Storage] = []  # memory it writes to
        self._fixed: set[fx.Node] = set()  # inputs that stay, used or not
        self.around: set[fx.Graph] = {recorder.graph, *(recorder.sub.around if recorder.sub is not None else ())}
        self.outer: dict[fx.Node, TracedTensor] = {}  # tensors of the graphs around it that it uses
        self.why = "a write to a tensor that backward did not make"  # what it must not do
        self.transformed: bool = recorder.sub is not None and recorder.sub.transformed  # by torch.func
        self.gathers = False  # a 0-d tensor as an index is no number: it stands for many

    def __enter__(self) -> SubGraph:
        recorder = self.recorder
        self._outer = (
            recorder.graph,
            recorder.nodes,
            recorder.kept,
            recorder.state,
            recorder.numbers.made,
            recorder.sub,
        )
        recorder.graph, recorder.nodes, recorder.kept = self.graph, self.nodes, set()
        recorder.numbers.made, recorder.sub = {}, self
        recorder.state = GraphState(recorder.record_state, recorder.traces, may_ease=recorder.ease)
        return self

    def __exit__(self, *exc: Any) -> None:
        recorder = self.recorder
        recorder.graph, recorder.nodes, recorder.kept, recorder.state, recorder.numbers.made, recorder.sub = self._outer

    def input(self, name: str, meta: Meta, owned: bool = True) -> TracedTensor:
        """A tensor that the graph is given, which has memory of its own; it may be written to where that is owned."""
        node = self.nodes.placeholder(name)
        node.meta.value = New(meta)
        self._fixed.add(node)
        storage = Storage()
        if owned:
            self.storages.append(storage)
        return self.recorder.new(meta, node, storage)

    def note(self, tensors: Iterable[TracedTensor]) -> None:
        """Tensors that the graph uses: those of the graphs around it are remembered."""
        for traced in tensors:
            node = traced._node
            if node.graph is not self.graph:
                self.outer[node] = traced

    def inside(self, node: fx.Node) -> fx.Node:
        """A node of this graph that stands for one of a graph around it."""
        if node.graph is self.graph:
            return node
        if node.graph not in self.around:
            raise left_its_graph()
        found = self.lifted.get(node)
        if found is None:
            found = self.lifted[node] = self.nodes.placeholder(node.name)
            found.meta.value = getattr(node.meta, "value", None)
        return found

    def adopt(self, args: Any) -> Any:
        """Arguments of a node with all nodes of this graph."""
        return fx.node.map_arg(args, self.inside)

    def owns(self, storage: Storage) -> bool:
        """Whether the memory belongs to tensors that this graph made or was given."""
        return any(storage is known for known in self.storages)

    def finish(self, outputs: list[TracedTensor | None]) -> list[fx.Node]:
        """Closes the graph; gives the nodes around it that it takes, in the order of its inputs after the first ones.

        Inputs come in the order: those made by `input`, then the lifted ones.
        """
        self.recorder.state.finish()
        self.graph.output(tuple(None if one is None else self.inside(one._node) for one in outputs))
        failing = {node for node in self.graph.nodes if node.op.startswith("call") and may_fail(node)}
        remove_dead(self.graph, self.recorder.kept | self._fixed | failing)
        present = set(self.graph.find_nodes(op="placeholder"))
        self.lifted = {outer: inner for outer, inner in self.lifted.items() if inner in present}
        order = [*(node for node in self._ordered() if node in self._fixed), *self.lifted.values()]
        for node in reversed(order):
            self.graph._root.append(node)
        return list(self.lifted)

    def _ordered(self) -> list[fx.Node]:
        return list(self.graph.find_nodes(op="placeholder"))


def contiguous(recorder: Recorder, meta: Meta) -> Meta:
    """Metadata of a contiguous tensor of the same sizes that autograd knows nothing of."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        fake = recorder.fake(meta.with_autograd(False, True))
        with fake.fake_mode:
            return meta_of(fake.contiguous())
