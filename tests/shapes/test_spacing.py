"""`torch.arange` with floats among its bounds, and numbers that vary."""

import random

import pytest
import torch

from tests.harness import check

COUNTS = (20, 13, 17, 11, 3, 19, 16, 2, 12, 18)


def from_the_middle(n):
    return torch.arange(0.5, n) / n


def with_a_step(n):
    return torch.arange(0, n, 0.25) + torch.arange(n, n + 2, 0.1, dtype=torch.float64).sum()


def anchors(n):
    """As detectors place them: the offset is a float, the stride an int."""
    shifts = torch.arange(0.5 * 8, n * 8, step=8, dtype=torch.float32, device="cpu")
    return torch.stack(torch.meshgrid(shifts, shifts, indexing="ij"), -1)


def in_half(n):
    return torch.arange(0.5, n, 1.5, dtype=torch.float16)


@pytest.mark.parametrize("program", [from_the_middle, with_a_step, anchors, in_half])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_as_many_numbers_as_a_size_says(program, backend):
    tolerance = None if backend == "eager" else 1e-6
    calls = [(n,) for n in COUNTS]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2, backend=backend, tolerance=tolerance)


def spaced(x, step):
    return torch.arange(0, 3, step).sum() + x, torch.arange(step, 2.5).shape, torch.arange(1, 1 + step, 0.01)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_steps_that_vary(backend):
    draw = random.Random(0)
    calls = [(torch.ones(2), draw.uniform(0.05, 2.0)) for _ in range(10)]
    tolerance = None if backend == "eager" else 1e-5
    check(spaced, vary=calls, expect_recompiles=1, expect_graphs=2, backend=backend, tolerance=tolerance)


def test_as_many_as_torch_makes():
    """Quotients are rounded as torch rounds them."""

    def program(end, step):
        made = torch.arange(0.0, end, step)
        return made, made.shape[0]

    draw = random.Random(1)
    steps = [draw.choice((0.1, 0.2, 0.3, 1e-2, 0.7)) for _ in range(60)]
    check(program, vary=[(draw.randint(1, 40) * step, step) for step in steps], expect_recompiles=None)


def test_nothing_and_backwards():
    def program(n, end):
        return torch.arange(0.5, end), torch.arange(n, 0, -0.5), torch.arange(0.5, n, 2, dtype=torch.int64)

    check(program, vary=[(n, n % 3 / 2 + 0.5) for n in (7, 5, 6, 9, 8)], expect_recompiles=None)


def test_steps_that_do_not_lead_there():
    def program(n, step):
        return torch.arange(0.5, n, step)

    check(
        program,
        vary=[(n, 0.5 - n / 8) for n in (2, 3, 4, 5, 6)],
        expect_recompiles=None,
        expect_breaks=None,
        fullgraph=False,
    )
