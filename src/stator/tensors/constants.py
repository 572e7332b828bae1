"""Conditions on tensors that the program filled with constants: the first test of `while not done.all()`.

What leads to such a condition is a handful of operations without inputs, which are run while capturing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from stator.tensors.plan import New
from stator.tensors.readings import run
from stator.tensors.targets import called
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

MOST_NODES = 32
MOST_ELEMENTS = 4096

# What fills a tensor with one number, whatever the data of its arguments.
_FILLED = {
    "zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1,
}  # fmt: skip
_PURE = frozenset({
    "full", "tensor", "arange", "eye", "lt", "le", "gt", "ge", "eq", "ne", "any", "all", "logical_not", "logical_and",
    "logical_or", "and_", "or_", "xor", "invert", "bitwise_not", "bitwise_and", "bitwise_or", "sum", "max", "min",
    "amax", "amin", "add", "sub", "mul", "neg", "clone", "bool", "long", "int", "reshape", "view", "unsqueeze",
    "squeeze", "detach",
})  # fmt: skip


def truth(recorder: Recorder, traced: TracedTensor) -> bool | None:
    """What `bool(traced)` is if the program knows without data; else None."""
    if recorder.sub is not None or torch.is_autocast_enabled("cpu"):
        return None
    found: set[fx.Node] = set()
    if not _collect(recorder, traced._node, found):
        return None
    values = recorder.constants
    with recorder.paused(), torch.no_grad():
        for node in sorted(found - values.keys()):
            made = _value(node, values)
            if not _fits(node.meta.value.meta, made):
                return None
            values[node] = made
        last = values[traced._node]
        return bool(last) if last.numel() == 1 else None


def _collect(recorder: Recorder, node: fx.Node, found: set[fx.Node]) -> bool:
    """Finds the nodes that lead to one; whether all are known."""
    if node in found:
        return True
    made, name = getattr(node.meta, "value", None), called(node)
    home = recorder.readings.homes.get(node)
    if not node.op.startswith("call") or type(made) is not New or home is None or home.mutated:
        return False
    if node in recorder.constants:
        found.add(node)
        return True
    meta = made.meta
    if any(type(size) is not int for size in meta.size) or meta.size.numel() > MOST_ELEMENTS:
        return False
    if meta.device.type != "cpu" or len(found) >= MOST_NODES or not (name in _FILLED or name in _PURE):
        return False
    if name not in _FILLED and not all(_collect(recorder, arg, found) for arg in node.all_input_nodes):
        return False
    found.add(node)
    return True


def _value(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    filled = _FILLED.get(called(node))
    if filled is None:
        return run(node, values)
    meta = node.meta.value.meta
    return torch.full(tuple(meta.size), filled, dtype=meta.dtype, device="cpu")


def _fits(meta: Any, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is meta.dtype and value.shape == meta.size
