"""Tensors of the graph that end at a break: those in variables that nothing reads behind it.

In eager they live until the function returns, which nobody can tell of a plain tensor without weak references. The
graph need not give them, nor keep for backward what they were made of. Where the program looks at variables by
name (`locals()`, `f_locals`), all are carried on. Numbers and texts always are: libraries look for them in callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from stator.code.needed import looks_at_variables
from stator.eval.machine import Snapshot
from stator.runtime.continuation import IsSpared
from stator.tensors.traced import TracedTensor


def spared(host: Any, frames: Sequence[Snapshot]) -> IsSpared:
    """Tells of a value whether it may be left behind at a break in these frames."""
    if host.refers_weakly or any(looks_at_variables(frame.code) for frame in frames):
        return lambda value: False
    adorned = {id(reference()) for reference in host.recorder.adorned}

    def is_spared(value: Any) -> bool:
        if type(value) is not TracedTensor:
            return value is None  # which a variable may be at one time, and a tensor at another
        return value._stands_for is torch.Tensor and id(value) not in host.records and id(value) not in adorned

    return is_spared
