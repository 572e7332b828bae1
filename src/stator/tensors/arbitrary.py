"""Operations of which only strides depend on whether a size is one, and those of a dimension of one are arbitrary."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F

from stator.tensors.fakes import make_fake
from stator.tensors.products import cumprod
from stator.tensors.slopes import gradient

_T = torch.Tensor
# They give new tensors, of as many dimensions in any case; sizes that are not one must be equal, which is guarded.
_NAMES = """
    matmul mm bmm addmm baddbmm addbmm einsum where masked_fill add sub mul div cumsum sum mean softmax log_softmax
    triu tril flip sort argsort cumprod outer diag diag_embed diagflat eye repeat_interleave amax amin logsumexp
    cosine_similarity diff gradient
"""
_OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.neg)
FREE = frozenset(
    {
        make_fake,
        *_OPERATORS,
        *(getattr(owner, name) for name in _NAMES.split() for owner in (torch, _T) if hasattr(owner, name)),
        *(F.linear, F.layer_norm, F.softmax, F.log_softmax, F.scaled_dot_product_attention),
        *(
            torch.conv1d,
            torch.conv2d,
            torch.conv3d,
            F.multi_head_attention_forward,
            torch.autograd.grad,
            cumprod,
            gradient,
        ),
    }
)


# How many dimensions they give, or whether a copy, depends on whether a size is one.
_DEPENDING = "squeeze squeeze_ squeeze_copy reshape reshape_as flatten ravel contiguous unflatten view view_as"
EXACT = frozenset(getattr(owner, name) for name in _DEPENDING.split() for owner in (torch, _T) if hasattr(owner, name))


@contextmanager
def laid_out(func: Any, env: Any) -> Iterator[None]:
    """A context in which `func` asks nothing about sizes that may be one; `env`: that of symbolic sizes, or None."""
    if env is None or (func not in FREE and func not in EXACT):
        yield
        return
    before = env.laying_out, env.exact
    env.laying_out, env.exact = func in FREE, func in EXACT
    try:
        yield
    finally:
        env.laying_out, env.exact = before
