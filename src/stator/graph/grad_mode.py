"""Graphs that begin without grad mode and write to inputs in it: they are traced, and called, in grad mode.

AOTAutograd copies what is written to an input in front of the graph, and writes back behind it, both in the mode of the
call. Without grad mode neither would have a history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from stator.tensors.finish import SWITCH, remove_idle_switches


def enters(graph: fx.Graph) -> bool:
    """Whether some of the graph is in grad mode, if it does not begin in it."""
    return any(node.args[0] for node in graph.find_nodes(op="call_function", target=SWITCH))


def begun_in_it(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph for calls in grad mode: it leaves the mode itself, unless it enters it at once."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        graph.call_function(SWITCH, (False,))
    remove_idle_switches(graph, True)
    begun = fx.GraphModule(module, graph)
    begun.meta.update(module.meta)
    return begun


def calling_in_it(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called in grad mode; it leaves the mode as the graph says."""

    def run(*args: Any) -> Any:
        torch._C._set_grad_enabled(True)
        try:
            return function(*args)
        except BaseException:
            torch._C._set_grad_enabled(False)
            raise

    return run
