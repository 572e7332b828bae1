"""The first call of what AOTAutograd made runs like all others.

AOTAutograd runs it under a mode that warns of operators of the user's own whose results share memory with arguments.
Eager does not warn, and below such a mode some kernels of torch forget to conjugate (`linalg.pinv`).
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from torch._guards import TracingContext

from stator.graph.tracing import LazyContext

_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"


def install() -> None:
    """Leaves the mode out of what is compiled for stator, once AOTAutograd is there."""
    if wrappers := sys.modules.get(_WRAPPERS):
        _install(wrappers)


@cache
def _install(wrappers: Any) -> None:
    kind = wrappers._FirstInvocationContext
    made = kind.__init__

    def __init__(context: Any) -> None:
        made(context)
        if isinstance(TracingContext.try_get(), LazyContext):
            context._is_first = False

    kind.__init__ = __init__
