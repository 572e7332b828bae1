"""What compilers trace in another form for sizes that vary, and writes to parts of such: two compilations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.harness import check

TWO = {"backend": "aot_eager", "expect_graphs": 2, "expect_recompiles": 1}
SIZES = (9, 7, 12, 6, 11, 16, 8, 20, 5, 10)


def pooled(x):
    return F.max_pool1d(x * 2, 2), torch.max_pool1d(x, 3, 2, 1), F.max_pool1d(x[0], [2], ceil_mode=True)


def places_of_largest(x):
    halves, where = F.max_pool1d(x * 2, 2, return_indices=True)
    thirds, there = nn.MaxPool1d(3, stride=1, dilation=2, return_indices=True)(x)
    return halves, where, thirds, there, F.max_pool1d_with_indices(x, 2)


def rows_added(x):
    y = x * 2
    y[1:] += x[:-1]
    y[: y.shape[0] // 2].zero_()
    y[..., 1:] *= 3
    return y


@pytest.mark.parametrize("program", [pooled, places_of_largest])
@pytest.mark.parametrize("grad", [False, True])
def test_pools(program, grad):
    calls = [(torch.randn(2, 3, n, requires_grad=grad),) for n in SIZES]
    check(program, vary=calls, backward=grad, **TWO)


def test_pools_that_are_refused():
    def program(x):
        return F.max_pool1d(x, (2, 2))

    calls = [(torch.randn(2, 3, n),) for n in SIZES[:3]]
    check(program, vary=calls, backend="aot_eager", fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_parts_written_to():
    calls = [(torch.randn(n, 3),) for n in SIZES]
    check(rows_added, vary=calls, **TWO)


def running_products(x):
    return torch.cumprod(x * 2, 0), x.cumprod(dim=-2, dtype=torch.float64), x.cumprod(1)


def test_gradients_of_products():
    """One zero, several, and none."""

    def rows(i, n):
        x = torch.randn(n, 4)
        if i % 3:
            x[n // 2, 0] = x[0, 1] = x[-1, 1] = x[n // 3, 2] = 0.0
        return (x.requires_grad_(),)

    calls = [rows(i, n) for i, n in enumerate((5, 7, 12, 3, 9, 16, 4, 8, 11, 1))]
    check(running_products, vary=calls, backward=True, tolerance=1e-5, **TWO)


def slopes(x, places):
    each = torch.gradient(x * 2)
    return each, torch.gradient(x, spacing=0.3, dim=1), torch.gradient(x, spacing=[2, 0.7], edge_order=2)


def slopes_of_places(x, places):
    return torch.gradient(x, spacing=[places.cumsum(0)], dim=-1), torch.gradient(
        x * 3, spacing=(places,), dim=[1], edge_order=2
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [slopes, slopes_of_places])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_slopes(program, dtype, backend):
    def call(n):
        x = torch.randn(n + 1, n) * 10
        return x.to(dtype).requires_grad_(dtype.is_floating_point), torch.rand(n) + 0.5

    calls = [call(n) for n in SIZES]
    options = TWO | {"backend": backend, "tolerance": None if backend == "eager" else 1e-5}
    check(program, vary=calls, backward=dtype.is_floating_point, **options)


def differences(x):
    return torch.diff(x * 2, dim=0), (x * 3).unfold(0, 2, 1).sum(-1)


def test_differences_of_sizes_may_be_one():
    calls = [(torch.randn(n, 4, requires_grad=True),) for n in (5, 7, 12, 3, 9, 2)]
    check(differences, vary=calls, backward=True, tolerance=1e-5, **TWO)
