"""Assertions of a graph: what was assumed about numbers that only data tells."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx


def assert_holds(condition: Any, message: str) -> None:
    """Fails where an assumption of the graph does not hold; under a tracer it is torch's own assertion."""
    if condition is True:
        return
    if condition is False:
        raise RuntimeError(message)
    torch.ops.aten._assert_scalar.default(condition, message)


def advance(graph: fx.Graph, kept: Iterable[fx.Node]) -> None:
    """Moves assertions to where their numbers are made: who traces what follows knows what is assumed."""
    wanted = {node for node in kept if node.target is assert_holds}
    if not wanted:
        return
    nodes = list(graph.nodes)
    for node in reversed(nodes):
        if node in wanted:
            wanted.update(one for one in node.all_input_nodes if _is_arithmetic(one))
    order = {node: number for number, node in enumerate(nodes)}
    start = sum(node.op == "placeholder" for node in nodes) - 1
    places: dict[fx.Node, int] = {}  # of what moves: the number of the node behind which it lies now
    last: dict[int, fx.Node] = {}  # the last one that lies behind it
    for node in filter(wanted.__contains__, nodes):
        above = (places[one] if one in places else order[one] for one in node.all_input_nodes)
        place = places[node] = max((start, *above))
        if place >= 0:
            last.get(place, nodes[place]).append(node)
            last[place] = node


def _is_arithmetic(node: fx.Node) -> bool:
    """Whether a node on the way to a condition calculates with numbers."""
    return node.op == "call_function" and node.target in ARITHMETIC


ARITHMETIC = {getattr(operator, name) for name in operator.__all__} - {operator.getitem}
