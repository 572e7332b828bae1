"""Formulas for Inductor that refuse what eager refuses: those of its own leave out what torch's kernels look at.

An index below zero counts from the end, one beyond the end of a constant tensor is passed over, and what is no
probability gives nan. Where compiled code fails instead, CPython runs the call and raises in torch's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import torch

Formula = Callable[..., Any]
aten = torch.ops.aten

COUNTED = (aten.index_select.default, aten.index_add.default, aten.index_copy.default)  # (x, dim, index, …), from zero
KERNELS = (aten.binary_cross_entropy.default, aten.bernoulli.default)  # torch's own, which look at each number

_wanted: ContextVar[bool] = ContextVar("wanted", default=False)


@contextmanager
def refusing() -> Iterator[None]:
    """What is traced in here is compiled with these formulas; Inductor's cache on disk would not know another table."""
    _install()
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


@cache
def _install() -> None:
    """Puts the formulas into Inductor's tables, once; what was there serves those who did not ask."""
    from torch._inductor import decomposition, lowering  # heavy

    for operation in KERNELS:
        lowering.make_fallback(operation, override_decomp=True)
    for table in (decomposition.decompositions, decomposition.fast_random_decomps()):
        table[aten.scatter.value] = partial(_scatter, table.get(aten.scatter.value, _is_itself))
        for operations, formula in ((COUNTED, _from_zero), (KERNELS, _kernel)):
            for operation in operations:
                table[operation] = partial(formula, table[operation])


def _is_itself(*args: Any, **options: Any) -> Any:
    return NotImplemented


def _kernel(known: Formula, *args: Any, **options: Any) -> Any:
    return NotImplemented if _wanted.get() else known(*args, **options)


def _from_zero(known: Formula, x: torch.Tensor, dim: int, index: torch.Tensor, *rest: Any, **options: Any) -> Any:
    """An index below zero is one beyond any end, for which compiled code fails.

    Not the end itself: torch cannot divide into forward and backward what makes tensors of sizes from data.
    """
    if x.ndim and _wanted.get():
        index = torch.where(index < 0, 1 << (8 * index.dtype.itemsize - 2), index)
    return known(x, dim, index, *rest, **options)


def _scatter(known: Formula, x: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> Any:
    """One number for each row, but in a backward pass, whose indices forward has seen.

    Inductor makes comparisons of it where the tensor is constant, unless the number is a tensor.
    """
    if not _wanted.get() or not x.ndim or index.shape[dim] != 1 or torch._C._current_autograd_node() is not None:
        return known(x, dim, index, value)
    source = torch.full([1] * index.ndim, value, dtype=x.dtype, device=x.device)
    return aten.scatter.src(x, dim, index, source.expand(index.shape))
