"""Results that nobody uses, of operations that run for something else: they draw random numbers, or may fail.

A trace drops what none of its outputs depends on: the numbers that follow would be others, and errors would be missing.
So these results are outputs of what a backend is given, and nobody sees them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from stator.tensors.failing import may_draw
from stator.tensors.plan import Group, New, Same


def with_results(module: fx.GraphModule) -> tuple[fx.GraphModule, int | None]:
    """The graph with such results behind its outputs, and how many outputs it had; or the graph itself."""
    unused = [node for node in module.graph.nodes if node.op.startswith("call") and _is_wanted(node)]
    if not unused:
        return module, None
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    outputs: Any = graph.graph_copy(module.graph, copies)
    results = [_kept(graph, copies[node], node.meta.value) for node in unused]
    graph.output((*outputs, *results))
    return fx.GraphModule(module, graph), len(outputs)


def _is_wanted(node: fx.Node) -> bool:
    """Also numbers that are drawn into a tensor: something else may be written over them before anybody looks."""
    value = getattr(node.meta, "value", None)
    if type(value) is Same:
        return may_draw(node)
    return not node.users and _path(value) is not None


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
