"""Libraries that look for torch when they are first called, and remember what they found.

An entry of such a first call would never be used again: its own effects are what its guards exclude. So the library is
made to look before the capture, with what it remembers nothing that a program without a look inside of it can see.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch


def einops(backends: Any) -> None:
    """Finds its backend by the type of the tensor."""
    backends.get_backend(torch.empty(0))
    backends.get_backend(torch.nn.Parameter(torch.empty(0)))


# By the name of the module that remembers.
LIBRARIES: dict[str, Callable[[Any], None]] = {"einops._backends": einops}
_waiting = dict(LIBRARIES)


def prepare() -> None:
    for name in [name for name in _waiting if name in sys.modules]:
        look = _waiting.pop(name)
        try:
            look(sys.modules[name])
        except Exception:  # of a version that works in another way: the program's own call will tell
            pass
