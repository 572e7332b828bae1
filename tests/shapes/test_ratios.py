"""Fractions of symbolic ints: what is made an int of them without a guard on the value."""

from __future__ import annotations

import math
import random

import pytest
import torch

from stator.shapes import ratios
from stator.shapes.ratios import LARGEST, Fraction
from tests.harness import check


@pytest.mark.parametrize("seed", range(4))
def test_floats_lie_on_the_side_of_their_fractions(seed):
    """Also next to the largest numerators, and next to whole numbers."""
    rng = random.Random(seed)
    for _ in range(2000):
        below = rng.choice((2, 3, 5, 7, 10, 97, 1023, (1 << 20) - 1))
        above = rng.choice(
            (rng.randrange(LARGEST), rng.randrange(1, LARGEST // below) * below + rng.choice((-1, 0, 1)))
        )
        assert math.floor(above / below) == above // below and math.ceil(above / below) == -(-above // below)


def test_fractions_of_constants():
    assert (
        ratios.fraction(0.75) == Fraction(3, 4) and ratios.fraction(0.1) is None and ratios.fraction(math.inf) is None
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda n: (math.ceil(n / 3), math.floor(n / 3), int(n / 3)),
        lambda n: (int(n * 0.5), math.ceil(n * 0.75), math.floor(1.5 * n)),
        lambda n: (int((n / 2 + 1) / 3), math.ceil((n - 9) / 2), int(n / 0.5), int((n + 0.5) * 2)),
    ],
)
def test_sweep(function):
    sizes = [(torch.ones(n),) for n in (5, 7, 8, 9, 12, 100)]
    check(lambda x: (x + 1, function(x.shape[0])), vary=sizes, expect_recompiles=1, expect_graphs=None)


@pytest.mark.parametrize("function", [lambda n: int(n * 0.3), lambda n: math.ceil(n * 0.1), lambda n: int((n - 9) / 2)])
def test_what_cannot_be_said_is_guarded(function):
    sizes = [(torch.ones(n),) for n in (10, 20, 30, 7)]
    check(lambda x: (x + 1, function(x.shape[0])), vary=sizes, expect_recompiles=None, expect_graphs=None)
