"""Graphs that write to their inputs and hold only for some data: what was assumed is checked before any write.

Compiled code may write at any moment. Where the assertions need little of the graph, that part runs first, by itself.
Otherwise what the graph writes to is copied, and put back when it fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from stator.graph.module import eager_callable
from stator.tensors.checks import assert_holds
from stator.tensors.targets import called
from stator.tensors.undoing import put_back, save

MOST = 48  # nodes that are worth running twice
_COSTLY = re.compile(
    r"linear|mm$|matmul|conv|attention|einsum|lstm|gru|rnn|norm|softmax|embedding|sort|topk|unique|pool"
)


class NotAsAssumed(Exception):
    """The graph was made for other data; nothing has been written."""


def assertions_of(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that check what was assumed."""
    return [node for node in graph.nodes if node.target is assert_holds]


def written_before_checks(graph: fx.Graph, writers: set[fx.Node]) -> bool:
    """Whether an assertion comes after the first write."""
    written = False
    for node in graph.nodes:
        written = written or node in writers
        if written and node.target is assert_holds:
            return True
    return False


def checks_of(module: fx.GraphModule, writers: set[fx.Node], effects: set[fx.Node], homes: Any) -> Any:
    """A function of the graph's inputs that fails where an assertion does; None if it cannot or should not be."""
    needed = needed_first(module.graph, assertions_of(module.graph), writers, effects, homes, MOST)
    return None if needed is None else eager_callable(part(module.graph, needed))


def needed_first(
    graph: fx.Graph, ends: Sequence[fx.Node], writers: set[fx.Node], effects: set[fx.Node], homes: Any, most: int
) -> set[fx.Node] | None:
    """The nodes that lead to these, if they can run before all others and are not too many."""
    order = {node: place for place, node in enumerate(graph.nodes)}
    first = min((order[node] for node in writers if node in order), default=len(order))
    needed: set[fx.Node] = set()
    pending = list(ends)
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.add(node)
        if not may_run_first(node, order[node] < first, effects, homes) or len(needed) > most:
            return None
        pending.extend(node.all_input_nodes)
    return needed


def may_run_first(node: fx.Node, before: bool, effects: set[fx.Node], homes: Any) -> bool:
    """Whether a node gives at the start what it gives in its place, and costs little."""
    if node.op == "placeholder" or node.target is assert_holds:
        return True
    if node in effects or _COSTLY.search(called(node)):
        return False
    return before or not any(homes[arg].mutated for arg in node.all_input_nodes if arg in homes)


def part(graph: fx.Graph, needed: set[fx.Node], outputs: Sequence[fx.Node] = ()) -> fx.GraphModule:
    """The graph of some nodes, with all its inputs."""
    part = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder" or node in needed:
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(tuple(copies[node] for node in outputs))
    return fx.GraphModule(torch.nn.Module(), part)


def checked(compiled: Callable[..., Any], checks: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled code behind its checks."""

    def run(*inputs: Any) -> Any:
        try:
            with torch.no_grad():
                checks(*inputs)
        except Exception as error:
            raise NotAsAssumed from error
        return compiled(*inputs)

    return run


def undone(compiled: Callable[..., Any], written: Sequence[int]) -> Callable[..., Any]:
    """Compiled code whose writes to its inputs are taken back when it fails."""

    def run(*inputs: Any) -> Any:
        targets = [inputs[index] for index in written]
        saved = save(*targets)
        try:
            return compiled(*inputs)
        except Exception as error:
            put_back(saved, *targets)
            raise NotAsAssumed from error

    return run
