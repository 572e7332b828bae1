"""Functions of torch that make a constant of a size where they are traced: not when a graph is made of them."""

from __future__ import annotations

import pytest
import torch

from tests.harness import check

SIZES = ((5, 3), (6, 3), (4, 7), (9, 2), (7, 7))


def along(x, places):
    """Indices of all sizes along a dimension, also negative ones and those that are broadcast."""
    ordered, order = torch.sort(x, dim=0)
    first = torch.take_along_dim(places, order, dim=0) + 0
    second = ordered.take_along_dim(order[:, :1] - order.shape[0], 0)
    return first, second, x.take_along_dim(places[:, :1], -2), x.take_along_dim(order)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_take_along_dim(backend):
    calls = [(torch.randn(n, m), torch.arange(n).view(-1, 1).expand(n, m)) for n, m in SIZES]
    report = check(along, vary=calls, expect_recompiles=None, expect_graphs=None, backend=backend)
    assert report.gained("frames_captured") == 2, report.counts
