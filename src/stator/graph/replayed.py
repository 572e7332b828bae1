"""Graphs of AOTAutograd that run operation by operation, without a compiler."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx


def forward(traced: fx.GraphModule) -> fx.GraphModule:
    """A graph that writes to none of its own tensors, with copies where a view cannot be: torch's fake tensors lie
    in memory in another way than results of some kernels do (`softplus_backward`)."""
    for node in traced.graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
    traced.recompile()
    return traced


def backward(traced: fx.GraphModule) -> fx.GraphModule:
    """The same for a backward pass: its numbers are those of torch's formulas, which C++ divides.

    Python would raise where a formula divides by zero, as that of `std` does for a single number.
    """
    for node in traced.graph.find_nodes(op="call_function", target=operator.truediv):
        if not isinstance(node.meta.get("val"), torch.Tensor):
            node.target = divide
    return forward(traced)


def divide(a: Any, b: Any) -> Any:
    """The quotient of numbers by IEEE 754."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
