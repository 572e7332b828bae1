"""Checkpointed regions of a graph that runs as it is: backward calculates them again, as torch has it do.

So it uses what parameters hold by then, and the values in between take no memory meanwhile.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import fx
from torch.fx.node import map_arg
from torch.utils.checkpoint import checkpoint

from stator.tensors.modes import ENTER, LEAVE, SETTERS

REGION = "stator_region"  # key of `node.meta`
SWITCHES = frozenset({*ENTER, *LEAVE.values(), *SETTERS})


class Region(NamedTuple):
    """One call of `checkpoint`: the names of the nodes that it was given, and what else it was told."""

    number: int
    given: frozenset[str]
    options: tuple[tuple[str, Any], ...]


def region_of(node: fx.Node) -> Region | None:
    return dict.get(node.meta, REGION)


def folded(graph: fx.Graph, compiled: Callable[[fx.Graph], Any]) -> fx.Graph:
    """The graph, in which each region is one call."""
    regions: dict[int, list[fx.Node]] = {}
    for node in graph.nodes:
        if (region := region_of(node)) is not None:
            regions.setdefault(region.number, []).append(node)
    whole = {number for number, nodes in regions.items() if is_whole(nodes)}
    if not whole:
        return graph
    made = fx.Graph()
    copies: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        region = region_of(node)
        if region is None or region.number not in whole:
            copies[node] = made.node_copy(node, copies.__getitem__)
        elif node is regions[region.number][0]:
            add_call(made, copies, region, regions[region.number], compiled)
    return made


def is_whole(nodes: list[fx.Node]) -> bool:
    """Whether nothing else lies between these, and none of them changes a setting that others go by."""
    follows = all(node.next is after for node, after in itertools.pairwise(nodes))
    return follows and not any(node.target in SWITCHES for node in nodes)


def add_call(
    made: fx.Graph, copies: dict[fx.Node, Any], region: Region, nodes: list[fx.Node], compiled: Callable[..., Any]
) -> None:
    """The region as a node of the new graph, and one for each value of it that others use."""
    inside = dict.fromkeys(nodes)
    used = {arg: None for node in nodes for arg in node.all_input_nodes if arg not in inside}
    inputs = sorted(used, key=lambda node: node.name not in region.given)  # those that it was given come first
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    body = fx.Graph()
    inner: dict[fx.Node, fx.Node] = {node: body.placeholder(node.name) for node in inputs}
    for node in nodes:
        inner[node] = body.node_copy(node, inner.__getitem__)
        dict.pop(inner[node].meta, REGION, None)
    body.output(map_arg(tuple(outputs), inner.__getitem__))
    call = calculated_again(compiled(body), sum(node.name in region.given for node in inputs), dict(region.options))
    result = made.call_function(call, tuple(copies[node] for node in inputs))
    for place, node in enumerate(outputs):
        copies[node] = made.call_function(operator.getitem, (result, place))


def calculated_again(function: Callable[..., Any], given: int, options: dict[str, Any]) -> Callable[..., Any]:
    """The region as a function: the first values are those that `checkpoint` was given, the others it found."""

    def region(*values: Any) -> Any:
        found = values[given:]
        return checkpoint(lambda *args: function(*args, *found), *values[:given], use_reentrant=False, **options)

    return region
