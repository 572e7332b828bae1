"""Inference mode around a whole graph: what a backend compiles runs in it, and does not change it.

A trace would switch the mode while it is made, and never when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.autograd import grad_mode

from stator.tensors.modes import QUIET


def taken_out(module: fx.GraphModule) -> tuple[fx.GraphModule, bool | None]:
    """The graph without its block, if it has one, and whether its operations are to run in the mode or not."""
    if not _in_one_block(module.graph):
        return module, None
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    entered = graph.find_nodes(op="call_function", target=grad_mode._enter_inference_mode)
    enabled = bool(entered[0].args[0])
    for node in [*graph.find_nodes(op="call_function", target=grad_mode._exit_inference_mode), *entered]:
        graph.erase_node(node)
    return fx.GraphModule(module, graph), enabled


def _in_one_block(graph: fx.Graph) -> bool:
    """Whether there is one block, with all operations inside."""
    depth = blocks = 0
    for node in graph.nodes:
        if node.target is grad_mode._enter_inference_mode:
            depth, blocks = depth + 1, blocks + 1
        elif node.target is grad_mode._exit_inference_mode:
            depth -= 1
        elif not depth and node.op.startswith("call") and node.target not in QUIET:
            return False
    return blocks == 1


def within(function: Callable[..., Any], enabled: bool) -> Callable[..., Any]:
    """The function, called in inference mode or outside of it."""

    def run(*args: Any) -> Any:
        with torch.inference_mode(enabled):
            return function(*args)

    return run
