"""Truth values drawn into memory that does not lie row by row (`dropout(x, inplace=True)` of images) are eager's.

Eager draws in the order of memory. A trace draws new numbers row by row instead, in that layout.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._guards import TracingContext

from stator.graph.tracing import LazyContext

aten = torch.ops.aten


def in_memory_order(x: torch.Tensor, p: float, *, generator: Any = None) -> Any:
    """What `x.bernoulli_(p)` draws, in the layout of x; `torch.bernoulli(x, p)` comes here with rows only."""
    order = sorted(range(x.ndim), key=lambda dim: (-x.stride(dim), dim))
    laid_out = x.permute(order)
    if order == list(range(x.ndim)) or not laid_out.is_contiguous():
        return NotImplemented
    places = [order.index(dim) for dim in range(x.ndim)]
    return aten.bernoulli.p(laid_out, p, generator=generator).permute(places)


FORMULAS = {aten.bernoulli.p: in_memory_order}


@cache
def install() -> None:
    """Puts the formula into Inductor's table, once; for graphs that are not stator's it does nothing."""
    from torch._inductor import decomposition  # heavy

    def only_ours(x: torch.Tensor, p: float, *, generator: Any = None) -> Any:
        ours = isinstance(TracingContext.try_get(), LazyContext)
        return in_memory_order(x, p, generator=generator) if ours else NotImplemented

    decomposition.decompositions.setdefault(aten.bernoulli.p, only_ours)
