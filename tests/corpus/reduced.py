"""Small programs that once went wrong, reduced from larger ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import stator
from tests.corpus.registry import built, case, r


@case((r(3),), (r(3),), (r(3),))
def numpy_draws(x: Any) -> Any:
    """Cython functions are no pure functions."""
    lam = np.random.beta(1.0, 1.0)
    if np.random.rand() < 0.5:
        x = x + np.random.randint(4)
    return x * lam


@stator.disable(recursive=False)
def called_below(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def broken(a: Any, *args: Any, **kwargs: Any) -> Any:
    stator.graph_break()
    return a + 1, args, kwargs


@case((r(3), np.ones(2)), (r(3), np.ones(3)))
def keywords_with_arrays(x: Any, q: Any) -> Any:
    """A container that could not be imported in the first attempt is not half full in the second."""
    return called_below(broken, x, 1, r=q), called_below(broken, x, q, r=2), called_below(broken, x, [2, q], r={"a": q})


@built((r(3),), (r(2),), backward=True)
def data_in_place() -> Any:
    class DataInPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, x: Any) -> Any:
            self.w.data *= 2
            y = self.w * x
            self.w.data *= 2
            z = self.w * x
            self.w.data = self.w.data + 1
            self.w.data.mul_(3)
            self.w.data.mul_(3)
            return y.detach() + z.detach() + self.w * x

    return DataInPlace()
