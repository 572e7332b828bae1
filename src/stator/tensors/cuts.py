"""A copy that may be none, of a tensor that nobody else knows."""

from __future__ import annotations

import torch

from stator.tensors.meta import Meta
from stator.tensors.rules.table import Fresh, register


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor.contiguous()`; for the graph a tensor with memory of its own, whatever its sizes are."""
    return tensor.contiguous()


def _rule(meta: Meta) -> Fresh:
    return Fresh(tuple(meta.size), meta.dtype)


register(_rule, [contiguous])
