"""Lowerings for Inductor on the CPU where sizes vary: its own make constants of them, which is a compilation per size.

Convolutions ask for the strides of a gradient only to know their order, adaptive pools for lengths to unroll their
windows; both are torch's kernels then. Half a length is one that varies, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from stator.shapes.env import env_class

Lowering = Callable[..., Any]
aten = torch.ops.aten


@cache
def install() -> None:
    """Puts the lowerings into Inductor's table, once; what was there serves constant sizes, and those of others."""
    from torch._inductor import decomposition, lowering  # heavy

    for table in (decomposition.decompositions, decomposition.fast_random_decomps()):
        for operation in WHOLE:
            table[operation] = _whole(table[operation])
    for operation, row in ROWS.items():
        lowering.lowerings[operation] = _either(row(operation), lowering.lowerings.get(operation))


def _whole(known: Callable[..., Any]) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        symbols = (size for size in x.shape if isinstance(size, torch.SymInt))
        varies = any(isinstance(size.node.shape_env, env_class()) for size in symbols)
        return NotImplemented if varies and x.device.type == "cpu" else known(x, *args, **options)

    return decomposition


def _either(made: Lowering, known: Any) -> Lowering:
    def lowered(*args: Any, **options: Any) -> Any:
        return (made if any(map(_varies, args)) else known)(*args, **options)

    return lowered


def _varies(value: Any) -> bool:
    """Whether it is a tensor on the CPU with a size that is a symbol of stator's."""
    from torch._inductor import ir, virtualized  # heavy

    if not isinstance(value, ir.TensorBox) or value.get_device_or_error().type != "cpu":
        return False
    if not any(getattr(size, "free_symbols", None) for size in value.get_size()):
        return False
    return isinstance(virtualized.V.graph.sizevars.shape_env, env_class())


def _kernel(operation: Any) -> Lowering:
    """Torch's kernel, given tensors that are laid out as in the graph."""
    from torch._inductor import lowering, virtualized  # heavy

    call = lowering.fallback_handler(operation, add_to_fallback_set=False)

    def lowered(*args: Any, **options: Any) -> Any:
        args, options = lowering.constrain_to_fx_strides(virtualized.V.graph.current_node, *args, **options)
        return call(*args, **options)

    return lowered


def _halves(operation: Any) -> Lowering:
    """One half times how far the other one is open."""
    from torch._inductor import lowering  # heavy
    from torch.utils._sympy.functions import FloorDiv

    def lowered(x: Any, dim: int = -1) -> Any:
        dim %= len(x.get_size())
        half = FloorDiv(x.get_size()[dim], 2)
        first = lowering.slice_(x, dim, 0, half, clamp=False)
        second = lowering.slice_(x, dim, half, half * 2, clamp=False)
        return lowering.mul(first, lowering.sigmoid(second))

    return lowered


WHOLE = (aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)  # Inductor's formulas ask for lengths
ROWS: dict[Any, Callable[[Any], Lowering]] = {
    aten.convolution_backward.default: _kernel,
    aten._adaptive_avg_pool2d.default: _kernel,
    aten.adaptive_max_pool2d.default: _kernel,
    aten.adaptive_max_pool3d.default: _kernel,
    aten.glu.default: _halves,
}
