"""Closing a graph: dead code goes, and the GraphModule writes its source only when somebody needs it."""

from __future__ import annotations

import threading
from typing import Any

from torch import fx, nn
from torch.fx._lazy_graph_module import _LazyGraphModule

_writing = threading.RLock()


class LazyGraph(_LazyGraphModule):
    """A GraphModule whose source is written once, also when several threads call it for the first time."""

    def real_recompile(self) -> None:
        with _writing:
            super().real_recompile()


def close(graph: fx.Graph, outputs: list[fx.Node], kept: set[fx.Node]) -> fx.GraphModule:
    """Adds the output node, removes what nobody needs, and wraps the graph."""
    graph.output(tuple(outputs))
    remove_dead(graph, kept)
    return LazyGraph(nn.Module(), graph, "Captured")


def remove_dead(graph: fx.Graph, kept: set[fx.Node]) -> None:
    """Removes unused placeholders and unused nodes without effects."""
    node: Any
    for node in reversed(graph.nodes):
        if not node.users and node.op != "output" and node not in kept:
            graph.erase_node(node)
