"""Results of a graph whose autograd history a backward inside of it has used up.

A trace would be differentiated all the same, and must not be: parameters may have changed since. So the trace gives
them without a history, and they get one that fails as the one in eager does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.tensors.attach import Hidden
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class _Spent(torch.autograd.Function):
    """Gives a tensor the look of a result whose history is gone."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, hidden: Hidden) -> Any:
        return hidden.groups[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        with torch.enable_grad():
            leaf = torch.ones((), requires_grad=True)
            used = leaf.exp()
        torch.autograd.grad(used, leaf)
        return torch.autograd.grad(used, leaf)  # raises


def spent(tensor: torch.Tensor) -> Any:
    """The tensor as the result of a backward that cannot be repeated."""
    with torch.enable_grad():
        return _Spent.apply(torch.empty(0, requires_grad=True), Hidden(tensor))


def settle(recorder: Recorder, outputs: list[Any]) -> list[int]:
    """Numbers of the outputs that are spent; the graph gives them detached from now on."""
    if recorder.replay is None or not recorder.traces:
        return []
    recorder.replay.advance()
    found = []
    for index, output in enumerate(outputs):
        inner = type(output) is TracedTensor and output._meta.requires_grad and not output._meta.leaf
        if inner and not recorder.replay.is_differentiable(output):
            node = recorder.nodes.add("call_method", "detach", (output._node,), {}, "spent")
            node.meta.value = output._node.meta.value
            output._node = node
            found.append(index)
    return found
