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


SIZED = {
    "kron": lambda x, y: (torch.kron(x, y), y.kron(x).sum(0)),
    "kron of other ranks": lambda x, y: torch.kron(x[0], y) + 1,
    "kron that raises": lambda x, y: torch.kron(x.t(), y),
    "fill_diagonal_": lambda x, y: ((x @ x.t()).fill_diagonal_(0.5), (x @ y[:2]).fill_diagonal_(3, wrap=False) * 2),
    "fill_diagonal_ of ints": lambda x, y: (x[:, :1] > x[:, 0]).byte().fill_diagonal_(1).sum(0),
    "vander": lambda x, y: (torch.vander(x[:, 0].contiguous()), torch.vander(y[0], increasing=True)),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_compilation_for_all_sizes(name, backend):
    sizes = ((3, 8), (4, 5), (5, 7), (7, 3), (6, 9))
    calls = [(torch.randn(n, 2), torch.randn(3, m)) for n, m in sizes]
    options = {"fullgraph": False, "expect_recompiles": 1, "expect_breaks": None, "expect_graphs": None}
    check(SIZED[name], vary=calls, backend=backend, **options)


POOLS = {
    "adaptive_max_pool2d": lambda x, n: (F.adaptive_max_pool2d(x, n), F.adaptive_max_pool2d(x, (n, 2))),
    "adaptive_max_pool1d": lambda x, n: F.adaptive_max_pool1d(x[0], n),
    "unfold": lambda x, n: (F.unfold(x, n), F.unfold(x, (n, 2), padding=1, stride=n)),
}


@pytest.mark.parametrize("name", POOLS)
def test_windows(name):
    calls = [(torch.randn(2, 3, 12, 10), n) for n in (2, 3, 4, 5)]
    check(POOLS[name], vary=calls, backend="eager", expect_recompiles=1, expect_graphs=None)


SCALINGS = {
    "nearest": lambda x, f: F.interpolate(x, scale_factor=f),
    "exact": lambda x, f: F.interpolate(x[0], scale_factor=f, mode="nearest-exact"),
    "linear": lambda x, f: F.interpolate(x[0], scale_factor=f, mode="linear"),
    "bilinear": lambda x, f: F.interpolate(x, None, (f, 0.6), "bilinear"),
    "corners": lambda x, f: F.interpolate(x, scale_factor=f, mode="bicubic", align_corners=True),
    "smooth": lambda x, f: F.interpolate(x, scale_factor=f, mode="bilinear", antialias=True),
    "trilinear": lambda x, f: F.interpolate(x[None], scale_factor=(1.0, f, f), mode="trilinear"),
    "area": lambda x, f: F.interpolate(x, scale_factor=f, mode="area"),
    "again": lambda x, f: F.interpolate(x, scale_factor=f, mode="bilinear", recompute_scale_factor=True),
}
IMAGES = [torch.randn(2, 3, n, n + 1) for n in (6, 8, 7, 11, 10)]


@pytest.mark.parametrize("name", SCALINGS)
def test_images_of_varying_sizes_are_scaled(name):
    program = SCALINGS[name]
    check(program, vary=[(x, 1.3) for x in IMAGES], backend="eager", expect_recompiles=1, expect_graphs=2)


@pytest.mark.parametrize("name", ["nearest", "area"])
def test_images_are_scaled_and_traced(name):
    program, calls = SCALINGS[name], [(x.clone().requires_grad_(), 1.7) for x in IMAGES]
    check(program, vary=calls, backend="aot_eager", backward=True, expect_recompiles=1, expect_graphs=None)


@pytest.mark.parametrize("name", SCALINGS)
def test_images_are_scaled_by_varying_factors(name):
    program, factors = SCALINGS[name], (1.3, 1.5, 2.0, 0.7, 3.25)
    calls = [(x.clone().requires_grad_(), f) for x, f in zip(IMAGES, factors, strict=True)]
    check(program, vary=calls, backend="eager", backward=True, expect_recompiles=1, expect_graphs=2)
    check(program, vary=[(IMAGES[0], f) for f in factors], backend="eager", expect_recompiles=1, expect_graphs=2)


def test_images_are_scaled_by_varying_ints():
    calls = [(IMAGES[0], n) for n in (2, 3, 4, 5, 6)]
    check(SCALINGS["nearest"], vary=calls, backend="eager", expect_recompiles=1, expect_graphs=2)


def test_factors_that_are_refused():
    calls = [(x, f) for x, f in zip(IMAGES, (1.5, 2.5, 0.1, -1.0, 0.0), strict=True)]
    check(
        SCALINGS["corners"], vary=calls, fullgraph=False, expect_recompiles=None, expect_graphs=None, expect_breaks=None
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("aligned", [False, True])
def test_grids_of_varying_sizes(backend, aligned):
    def program(x, theta):
        grid = F.affine_grid(theta, x.shape, align_corners=aligned)
        deep = F.affine_grid(F.pad(theta, (0, 1, 0, 1)), [2, 3, 4, *x.shape[2:]], align_corners=aligned)
        return grid, F.grid_sample(x, grid, align_corners=aligned), deep

    calls = [(x, torch.randn(2, 2, 3, requires_grad=True)) for x in IMAGES]
    options = {"backend": backend, "backward": True, "tolerance": None if backend == "eager" else 1e-4}
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2, **options)


def test_grids_that_are_refused():
    def program(x, theta, aligned):
        return F.affine_grid(theta, x.shape, align_corners=aligned) * 2

    shapes = [(2, 3, 5, 6), (2, 3, 6, 7), (2, 3, 1, 6), (3, 3, 4, 4), (2, 3, 0, 4), (2, 3, 7)]
    calls = [(torch.ones(shape), torch.ones(2, 2, 3), aligned) for shape in shapes for aligned in (True, None)]
    options = {"fullgraph": False, "expect_graphs": None, "expect_breaks": None}
    check(program, vary=calls, expect_recompiles=None, **options)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_blocks_of_varying_sizes(backend):
    def program(x, y):
        return torch.block_diag(x, y * 2, x), torch.block_diag(x > 0, y > 0)

    calls = [(torch.randn(n, n + 1, requires_grad=True), torch.randn(3, n)) for n in (4, 6, 5, 9)]
    check(program, vary=calls, backend=backend, backward=True, expect_recompiles=1, expect_graphs=2)


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
