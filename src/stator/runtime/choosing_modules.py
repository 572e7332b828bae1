"""One of many modules, chosen by a number that data or the rounds of a loop tell (`self.experts[i]`).

Inside a capture the number would have to be a constant, and each module an entry of its own. So CPython looks it up,
and what goes on behind that break takes whichever module it is.
"""

from __future__ import annotations

from typing import Any

import torch

from stator import _frames
from stator.errors import Unsupported
from stator.frame import Frame
from stator.runtime.unrolling import may_break
from stator.shapes.scalar import TracedInt
from stator.tensors.traced import TracedTensor

LOOKUPS = (torch.nn.ModuleList.__getitem__, torch.nn.Sequential.__getitem__)
KEYS = frozenset({TracedInt, TracedTensor})
FEW = 4  # modules that may be an entry each


def left_to_python(host: Any, f: Frame, container: Any, key: Any) -> Unsupported | None:
    """The break where a module is looked up by such a number; None for all else."""
    if type(key) not in KEYS or not f.direct or not host.may_break or not may_break(host):
        return None
    method = _frames.type_lookup(type(container), "__getitem__")  # perhaps an object whose `==` is the program's
    if not any(method is one for one in LOOKUPS) or id(container) not in host.records:
        return None
    refused: Unsupported
    if type(key) is TracedTensor or key.symbols.is_unbacked(key):
        refused = host.refuse("data-dependent-value", "it says which module is meant", function="The index")
        return refused
    settled = type(key.symbols.unknowns.settled(key.number)) is int
    if settled or not host.in_loop or len(container._modules) <= FEW:
        return None
    refused = host.refuse("varying-loop", "each round has a module of its own", function=f.code.co_qualname)
    return refused
