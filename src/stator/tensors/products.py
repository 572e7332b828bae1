"""Running products whose gradient compilers trace for all lengths: torch's own loops over the elements there."""

from __future__ import annotations

from typing import Any

import torch

from stator.shapes.scalar_ops import is_read


class _Products(torch.autograd.Function):
    """`cumprod` with a gradient of as many operations for each length."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.cumprod(x, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, int], output: torch.Tensor) -> None:
        x, ctx.dim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, products = ctx.saved_tensors
        return _slopes(grad, x, products, ctx.dim), None


def _slopes(grad: torch.Tensor, x: torch.Tensor, products: torch.Tensor, dim: int) -> torch.Tensor:
    """Up to the first zero the sums of what follows, over the element; there what follows up to the second one."""
    zero = x == 0
    zeros = zero.cumsum(dim)
    first = zero & (zeros == 1)
    follows = torch.where(zeros == 0, products.conj() * grad, 0).flip(dim).cumsum(dim).flip(dim)
    without = torch.cumprod(torch.where(first, 1, x), dim)
    there = torch.where(zeros == 1, without.conj() * grad, 0).sum(dim, keepdim=True)
    return torch.where(first, there, torch.where(zeros == 0, follows / torch.where(zero, 1, x).conj(), 0))


def cumprod(input: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Torch's function, in a trace with another gradient."""
    if is_read(input):
        return torch.cumprod(input, dim, dtype=dtype)
    made: torch.Tensor = _Products.apply(input if dtype is None else input.to(dtype), dim)
    return made
