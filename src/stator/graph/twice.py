"""Gradients of gradients of compiled graphs: AOTAutograd has a backward pass, but no gradient of that.

Where autograd records a backward pass itself (`create_graph=True`), a hook on the node that AOTAutograd puts into the
history takes the gradients from the recorded operations instead, which autograd can follow as often as it likes.

It does so, too, where a result got no gradient and nan comes out: AOTAutograd takes zeros for it, and where a slope is
infinite (`x.sqrt()` at 0), zero times that is nan. Eager does not go there at all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from stator.graph.steep import hold_nan
from stator.graph.undefined import Nodes
from stator.tensors.modes import Rows, autocast_rows

ANY_AUTOCAST = torch._C._is_any_autocast_enabled
VERSION = operator.attrgetter("_version")
WRITTEN = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "an input of a compiled graph is at version {now}; expected version {then} instead"
)


def _alias(arg: Any) -> Any:
    """The same tensor one step on in its history: what it was made of may be an input, too, and is not meant."""
    return arg.view_as(arg) if isinstance(arg, torch.Tensor) and arg.requires_grad else arg


class Again:
    """The hook of one node: what the graph was given, and the output at each place of the node."""

    def __init__(
        self, recorded: Callable[..., Sequence[Any]], steep: bool, args: Sequence[Any], places: dict[int, int]
    ) -> None:
        self.recorded = recorded
        self.steep = steep
        self.args = args
        self.tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        self.versions = list(map(VERSION, self.tensors))
        self.places = places
        self.autocast = autocast_rows() if ANY_AUTOCAST() else ()

    def __call__(self, inner: Sequence[Any], outer: Sequence[Any]) -> tuple[Any, ...] | None:
        given = {i: gradient for i, gradient in enumerate(outer) if gradient is not None}
        twice = torch.is_grad_enabled()
        if not given or not given.keys() <= self.places.keys():
            return None
        if not twice and not (self.steep and given.keys() != self.places.keys() and hold_nan(inner)):
            return None
        for tensor, then in zip(self.tensors, self.versions, strict=True):
            if tensor._version != then:
                if not twice:
                    return None
                raise RuntimeError(WRITTEN.format(now=tensor._version, then=then))
        with autocast_as(self.autocast), torch.enable_grad():
            args = list(map(_alias, self.args))
            outputs = self.recorded(*args)
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        wanted = [tensor for tensor, gradient in zip(tensors, inner, strict=True) if gradient is not None]
        made = torch.autograd.grad(
            [outputs[self.places[i]] for i in given],
            wanted,
            list(given.values()),
            create_graph=twice,
            allow_unused=True,
        )
        found = iter(made)
        return tuple(None if gradient is None else next(found) for gradient in inner)


def autocast_as(rows: Rows) -> ExitStack:
    """Autocast as it was when these were read, whatever is on now."""
    stack = ExitStack()
    if rows or ANY_AUTOCAST():
        for device, enabled, dtype in rows or autocast_rows():
            if rows and enabled:
                stack.enter_context(torch.autocast(device, dtype))
            elif torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
    return stack


def differentiable(
    compiled: Callable[..., Sequence[Any]], recorded: Callable[..., Sequence[Any]], steep: bool
) -> Callable[..., Sequence[Any]]:
    """`compiled`, whose gradients have gradients: those of the recorded operations; `steep`: slopes may be infinite."""
    nodes = Nodes()

    def run(*args: Any) -> Sequence[Any]:
        outputs = compiled(*args)
        for node, places in nodes.behind(outputs, args):
            node.register_hook(Again(recorded, steep, args, places))
        return outputs

    return run
