"""Formulas that Inductor is given in place of its own where a size is from data, to be as quick as with other sizes.

A softmax over a dimension that may be empty is no different from any other in compiled code, whose maximum of nothing
is -inf; Inductor's own formula copies its input to have something to take the maximum of.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from stator.shapes.env import env_class

LIBRARY = torch.library.Library("stator", "FRAGMENT")
LIBRARY.define("greatest(Tensor x, int dim) -> Tensor")


def _greatest(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The maximum along a dimension, which is kept; -inf where there is nothing."""
    return x.amax(dim, keepdim=True) if x.shape[dim] else _of_one(x, dim).fill_(-torch.inf)


def _of_one(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.new_empty([1 if place == dim else size for place, size in enumerate(x.shape)])


LIBRARY.impl("greatest", _greatest, "CompositeExplicitAutograd")
torch.library.register_fake("stator::greatest", _of_one, lib=LIBRARY)


def _softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    powers = (x - torch.ops.stator.greatest(x, dim)).exp()
    return powers / powers.sum(dim, keepdim=True)


def _log_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    shifted = x - torch.ops.stator.greatest(x, dim)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


FORMULAS = {torch.ops.aten._softmax.default: _softmax, torch.ops.aten._log_softmax.default: _log_softmax}


@cache
def install() -> None:
    """Puts the formulas into Inductor's tables, once; what was there serves sizes that are not stator's."""
    from torch._inductor import decomposition, lowering  # heavy

    greatest = torch.ops.stator.greatest.default
    lowering.register_lowering(greatest)(lambda x, dim: lowering.reduce_amax(x, dim, keepdims=True))
    for table in (decomposition.decompositions, decomposition.fast_random_decomps()):
        for operation, formula in FORMULAS.items():
            table[operation] = _either(formula, table[operation])


def _either(formula: Callable[..., torch.Tensor], known: Callable[..., Any]) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
        if not _is_from_data(x, dim):
            return known(x, dim, half_to_float)
        narrow = not half_to_float and x.dtype in (torch.float16, torch.bfloat16)
        made = formula(x.contiguous().float() if narrow or half_to_float else x.contiguous(), dim % x.ndim)
        return made.to(x.dtype) if narrow else made

    return decomposition


def _is_from_data(x: torch.Tensor, dim: int) -> bool:
    size = x.shape[dim] if x.ndim else 1
    if isinstance(size, int) or not isinstance(env := size.node.shape_env, env_class()):
        return False
    return not size.node.expr.free_symbols <= env.backed_var_to_val.keys()
