"""Operations with an int that torch takes as a constant only, for ints that change."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check

WIDE, MATRIX = torch.randn(1, 288, 2, 3), torch.randn(2, 7, 9)

PROGRAMS = {
    "pixel_shuffle": (lambda x, n: F.pixel_shuffle(x, n) + 1, WIDE, (2, 3, 4, 6)),
    "pixel_unshuffle": (lambda x, n: F.pixel_unshuffle(x, n), torch.randn(3, 24, 48), (2, 3, 4, 6, 8)),
    "diagonal": (lambda x, n: (x.diagonal(n, 1, 2), torch.diagonal(x, n, 2, 1)), MATRIX, (2, 3, 4, 5)),
    "diagonal below": (lambda x, n: x.diagonal(-n, -2, -1) * 2, MATRIX, (2, 3, 4, 5)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_compilation_for_all_numbers(name, backend):
    program, x, numbers = PROGRAMS[name]
    calls = [(x.clone(), n) for n in numbers]
    check(program, vary=calls, backend=backend, expect_recompiles=1, expect_graphs=None)


POOLS = {
    "adaptive_max_pool2d": lambda x, n: (F.adaptive_max_pool2d(x, n), F.adaptive_max_pool2d(x, (n, 2))),
    "adaptive_max_pool1d": lambda x, n: F.adaptive_max_pool1d(x[0], n),
    "unfold": lambda x, n: (F.unfold(x, n), F.unfold(x, (n, 2), padding=1, stride=n)),
}


@pytest.mark.parametrize("name", POOLS)
def test_windows(name):
    calls = [(torch.randn(2, 3, 12, 10), n) for n in (2, 3, 4, 5)]
    check(POOLS[name], vary=calls, backend="eager", expect_recompiles=1, expect_graphs=None)


def test_groups_of_a_norm():
    calls = [(torch.randn(2, 24, 5), n) for n in (2, 3, 4, 6, 12)]
    check(lambda x, n: F.group_norm(x, n), vary=calls, backend="eager", expect_recompiles=1, expect_graphs=None)


def test_results_share_memory_as_in_eager():
    """A diagonal is a view; pixels are copied, also where none changes its place."""

    def program(x, y, z, n):
        x.diagonal(n).fill_(7.0)
        a, b = F.pixel_shuffle(y, n), F.pixel_unshuffle(z, n)
        a.add_(1)
        b.add_(1)
        return a, b

    def calls():
        for n in (2, 3, 1, 4, 6):
            yield torch.zeros(8, 8), torch.ones(144, 1, 1), torch.ones(2, n, n), n

    check(program, vary=list(calls()), backend="eager", expect_recompiles=None, expect_graphs=None)


def test_numbers_that_torch_refuses():
    def program(x, n):
        try:
            return F.pixel_shuffle(x, n), x[0].diagonal(n), F.group_norm(x, n)
        except RuntimeError as error:
            return str(error)

    calls = [(torch.ones(2, 36, 4, 4), n) for n in (2, 3, 5, 0, -2, 6, 40)]
    check(program, vary=calls, backend="eager", expect_recompiles=None, expect_breaks=None, fullgraph=False)
