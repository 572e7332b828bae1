"""Results that nobody uses, of operations that run for something else: they draw random numbers, or may fail.

A trace drops what none of its outputs depends on: the numbers that follow would be others, and errors would be missing.
So these results are outputs of what a backend is given, and nobody sees them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from stator.tensors.failing import may_draw, may_fail
from stator.tensors.nodes import NodeMeta
from stator.tensors.plan import Group, New


def with_results(module: fx.GraphModule) -> tuple[fx.GraphModule, int | None]:
    """The graph with such results behind its outputs, and how many outputs it had; or the graph itself."""
    unused = _unused(module.graph)
    if not unused:
        return module, None
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    outputs: Any = graph.graph_copy(module.graph, copies)
    results = [_kept(graph, copies[node], node.meta.value) for node in unused]
    graph.output((*outputs, *results))
    return fx.GraphModule(module, graph), len(outputs)


def _unused(graph: fx.Graph) -> list[fx.Node]:
    """In the order of the graph."""
    found = []
    read = {node for node in graph.nodes if node.op == "placeholder"}  # memory that somebody looks at later
    live: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        meta = node.meta if type(node.meta) is NodeMeta else EFFECT
        if node.op.startswith("call"):
            used = not live.isdisjoint(node.users) or (meta.writes and _home(node) in read)
            wanted = may_draw(node) if meta.writes else not meta.pure or (not node.users and may_fail(node))
            if wanted and not used and _path(meta.value) is not None:
                found.append(node)
            elif not used and (node.users or not meta.pure):
                continue
        live.add(node)
        read.update(map(_home, node.all_input_nodes))
    return found[::-1]


EFFECT = NodeMeta()  # of nodes that are there for another reason


def _home(node: fx.Node) -> fx.Node:
    """The node that made the memory of a result, or of what a node writes to."""
    while type(node.meta) is NodeMeta:
        value, tensors = node.meta.value, node.all_input_nodes
        index = 0 if node.meta.writes else value.alias if type(value) is New else None
        if index is None or index >= len(tensors):
            break
        node = tensors[index]
    return node


def _path(value: Any) -> tuple[int, ...] | None:
    """Where a new tensor is in what an operation gives."""
    if type(value) is Group and value.names is None:
        found = ((i, _path(item)) for i, item in enumerate(value.items))
        return next(((i, *path) for i, path in found if path is not None), None)
    return () if type(value) is New else None


def _kept(graph: fx.Graph, node: fx.Node, value: Any) -> fx.Node:
    """A copy that is made at once, and through which no gradient goes."""
    before = node.next
    for index in _path(value) or ():
        with graph.inserting_before(before):
            node = graph.call_function(operator.getitem, (node, index))
    with graph.inserting_before(before):
        return graph.call_method("clone", (graph.call_method("detach", (node,)),))


def without_results(function: Callable[..., Sequence[Any]], count: int) -> Callable[..., Sequence[Any]]:
    """The function, of whose results only the first are wanted."""

    def run(*args: Any) -> Sequence[Any]:
        return function(*args)[:count]

    return run
