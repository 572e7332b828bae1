"""Operations of which only strides depend on whether a size is one, and those of a dimension of one are arbitrary."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F

from stator.tensors.fakes import make_fake

_T = torch.Tensor
# They give new tensors, of as many dimensions in any case; sizes that are not one must be equal, which is guarded.
_NAMES = """
    matmul mm bmm addmm baddbmm addbmm einsum where masked_fill add sub mul div cumsum sum mean softmax log_softmax
"""
_OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.neg)
FREE = frozenset(
    {
        make_fake,
        *_OPERATORS,
        *(getattr(owner, name) for name in _NAMES.split() for owner in (torch, _T) if hasattr(owner, name)),
        *(F.linear, F.layer_norm, F.group_norm, F.softmax, F.log_softmax, F.scaled_dot_product_attention),
        *(torch.conv1d, torch.conv2d, torch.conv3d),
    }
)


@contextmanager
def laid_out(func: Any, env: Any) -> Iterator[None]:
    """A context in which `func` asks nothing about sizes that may be one; `env`: that of symbolic sizes, or None."""
    if env is None or func not in FREE:
        yield
        return
    before, env.laying_out = env.laying_out, True
    try:
        yield
    finally:
        env.laying_out = before
