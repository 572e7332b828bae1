"""Backward passes that may run more than once, as with `retain_graph=True`.

AOTAutograd lets a backward pass write to what the forward pass kept, and then refuses one that keeps the graph behind
one that did not.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from torch._guards import TracingContext

from stator.graph.tracing import LazyContext

_COMPILING = "torch._functorch._aot_autograd.graph_compile"


def install() -> None:
    """What the forward pass keeps stays as it is in graphs of stator's, once AOTAutograd is there."""
    if compiling := sys.modules.get(_COMPILING):
        _install(compiling)


@cache
def _install(compiling: Any) -> None:
    found = compiling.collect_bw_donated_buffer_idxs

    def collect_bw_donated_buffer_idxs(*args: Any, **kwargs: Any) -> list[int]:
        ours = isinstance(TracingContext.try_get(), LazyContext)
        return [] if ours else found(*args, **kwargs)

    compiling.collect_bw_donated_buffer_idxs = collect_bw_donated_buffer_idxs
