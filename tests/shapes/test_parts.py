"""`tensor_split` of a size that varies: which parts are one longer is calculated, not asked."""

import pytest
import torch

from tests.harness import check

SIZES = (23, 24, 25, 27, 31, 22)


def uneven(x):
    a, b, c = x.tensor_split(3, 1)
    return a.sum() + b.sum() * c.mean(), a, b, c


def first_dimension(x):
    return [part * 2 for part in torch.tensor_split(x.t(), 4)]


def trained(x):
    a, b, c = (x * 2).tensor_split(3, dim=-1)
    return a.sum() + (b * b).sum() - c.mean()


def written(x):
    y = x.detach().clone()
    y.tensor_split(3, 1)[1].add_(1)
    return y


@pytest.mark.parametrize("program", [uneven, first_dimension, trained, written])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_two_compilations(program, backend):
    calls = [(torch.arange(6.0 * size).view(6, size).requires_grad_(program is trained),) for size in SIZES]
    report = check(
        program, vary=calls, backend=backend, backward=program is trained, expect_recompiles=1, expect_graphs=2
    )
    assert report.gained("frames_captured") == 2
