"""Conditions on tensors that the program filled with constants: the first test of `while not done.all()`.

What leads to such a condition is a handful of operations without inputs, which are run while capturing. Tensors with
sizes that vary are filled with one number each, and what is done with them is the same for one element of each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from stator.shapes.scalar import TracedInt
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
# What makes one number in all places of such numbers, however many places there are.
_EVEN = _PURE - {"full", "tensor", "arange", "eye", "sum", "reshape", "view", "squeeze"}


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


def are_all_made(recorder: Recorder) -> bool:
    """Whether such tensors, and others that are filled with constants, are all that the program has made so far."""
    made = (node for node in recorder.graph.nodes if node.op.startswith("call"))
    return all(node in recorder.constants or _filling(node) is not None for node in made)


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
    if meta.device.type != "cpu" or len(found) >= MOST_NODES or _elements(meta) > MOST_ELEMENTS:
        return False
    if _filling(node) is None:
        if name not in _PURE or not all(_collect(recorder, arg, found) for arg in node.all_input_nodes):
            return False
        if not _is_even(node):
            return False
    found.add(node)
    return True


def _varies(meta: Any) -> bool:
    return TracedInt in map(type, meta.size)


def _is_even(node: fx.Node) -> bool:
    """Whether tensors of varying sizes meet only others of which all places are alike."""
    rows = [node, *node.all_input_nodes]
    uneven = [row for row in rows if not _varies(row.meta.value.meta)]
    if len(uneven) == len(rows):
        return True
    return called(node) in _EVEN and all(_filling(row) is not None or not row.meta.value.meta.size for row in uneven)


def _elements(meta: Any) -> float:
    """How many there are, one for each size that varies; too many where data tells, or where there may be none."""
    number = 1
    for size in meta.size:
        if type(size) is TracedInt:
            if size.symbols.is_unbacked(size) or size == 0:
                return math.inf
        else:
            number *= size
    return number


def _filling(node: fx.Node) -> Any:
    """The number that a node fills its result with; None if it does something else."""
    name = called(node)
    if name == "full" and _varies(node.meta.value.meta):
        given = node.kwargs.get("fill_value", node.args[1] if len(node.args) > 1 else None)
        return given if type(given) in (bool, int, float) else None
    return _FILLED.get(name)


def _value(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    filled = _filling(node)
    if filled is None:
        return run(node, values)
    meta = node.meta.value.meta
    return torch.full(_place(meta), filled, dtype=meta.dtype, device="cpu")


def _place(meta: Any) -> tuple[int, ...]:
    """The sizes, with one for each that varies."""
    return tuple(1 if type(size) is TracedInt else size for size in meta.size)


def _fits(meta: Any, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is meta.dtype and value.shape == _place(meta)
