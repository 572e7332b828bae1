"""One graph for the first round of a loop and all others, where a tensor has no gradient in the first one only.

The state of a recurrent layer begins as zeros. The backend is given the first round as if they had a gradient: what it
makes of that serves all rounds, and in the first one the gradient that it calculates for them goes nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from stator.tensors.meta import Meta
from stator.tensors.nodes import NodeMeta
from stator.tensors.plan import New
from stator.tensors.traced import Storage


def can_join(graph: fx.Graph, places: Collection[int], homes: Mapping[fx.Node, Storage]) -> bool:
    """Whether all results that these inputs lead to have a gradient without them, or never have one."""
    if any(home.writes for home in homes.values()):
        return False
    inputs = graph.find_nodes(op="placeholder")
    led = {inputs[place] for place in places}
    for node in graph.nodes:
        if node.op == "output":
            return all(_has_its_own(one) for one in node.all_input_nodes if one in led)
        if not led.isdisjoint(node.all_input_nodes):
            led.add(node)
    return False


def _has_its_own(node: fx.Node) -> bool:
    value = node.meta.value if type(node.meta) is NodeMeta else None
    if type(value) is not New:
        return False
    meta: Meta = value.meta
    return meta.requires_grad or not (meta.dtype.is_floating_point or meta.dtype.is_complex)


def joined(values: Sequence[Any], places: Collection[int], mode: Any) -> list[Any]:
    """The inputs, with those at some places as parts of a history."""
    with torch.enable_grad():
        return [_with_history(value, mode) if place in places else value for place, value in enumerate(values)]


def _with_history(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    if mode is None or not hasattr(tensor, "fake_mode"):
        return tensor.detach().requires_grad_().view_as(tensor)
    with mode:
        return tensor.detach().requires_grad_().view_as(tensor)
