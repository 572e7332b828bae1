"""Sums with a multiple (`alpha`), spelt out for Inductor: it takes those of matrix products for plain sums."""

from __future__ import annotations

import torch
from torch import fx

aten = torch.ops.aten


def spell_out(graph: fx.GraphModule) -> None:
    """Multiplies first, then adds; nothing is rounded in between, as both are one kernel."""
    for node in graph.graph.find_nodes(op="call_function", target=aten.add.Tensor):
        alpha, other = node.kwargs.get("alpha", 1), node.args[1]
        if alpha == 1 or not isinstance(other, fx.Node) or not _is_of_one_kind(node, other):
            continue
        with graph.graph.inserting_before(node):
            multiple = graph.graph.call_function(aten.mul.Tensor, (other, alpha))
        factor = alpha.meta["val"] if isinstance(alpha, fx.Node) else alpha
        multiple.meta = {**other.meta, "val": aten.mul.Tensor(other.meta["val"], factor)}
        node.args, node.kwargs = (node.args[0], multiple), {}


def _is_of_one_kind(node: fx.Node, other: fx.Node) -> bool:
    """Whether the sum has the dtype of what is added, in which the multiple is calculated, too."""
    values = [one.meta.get("val") for one in (node, other)]
    return all(isinstance(value, torch.Tensor) for value in values) and values[0].dtype == values[1].dtype
