"""Closing a graph: dead code goes, and the GraphModule writes its source only when somebody needs it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.autograd import grad_mode
from torch.fx._lazy_graph_module import _LazyGraphModule

from stator import forking
from stator.tensors.checks import advance

_writing = forking.lock()


class LazyGraph(_LazyGraphModule):
    """A GraphModule whose source is written once, also when several threads call it for the first time."""

    def real_recompile(self) -> None:
        with _writing:
            super().real_recompile()


def close(graph: fx.Graph, outputs: list[fx.Node], kept: set[fx.Node], grad: bool) -> fx.GraphModule:
    """Adds the output node, removes what nobody needs, and wraps the graph; `grad` is the mode that it starts in."""
    graph.output(tuple(outputs))
    remove_dead(graph, kept)
    advance(graph, kept)
    remove_idle_switches(graph, grad)
    return LazyGraph(nn.Module(), graph, "Captured")


def remove_dead(graph: fx.Graph, kept: set[fx.Node]) -> None:
    """Removes unused placeholders and unused nodes without effects."""
    node: Any
    for node in reversed(graph.nodes):
        if not node.users and node.op != "output" and node not in kept:
            graph.erase_node(node)


def remove_idle_switches(graph: fx.Graph, grad: bool) -> None:
    """Removes switches of the grad mode between which nothing runs, and those that change nothing."""
    now: bool | None = grad
    last: fx.Node | None = None  # a switch after which nothing has run yet
    for node in list(graph.nodes):
        if node.op in ("placeholder", "get_attr"):
            continue
        if last is not None and (node.target is SWITCH or last.args[0] is now):
            graph.erase_node(last)
        elif last is not None:
            now = last.args[0]
        last = node if node.target is SWITCH else None
        if node.target in UNKNOWN:
            now = None


SWITCH = torch._C._set_grad_enabled
UNKNOWN = frozenset({grad_mode._enter_inference_mode, grad_mode._exit_inference_mode})  # which change it, too
