"""Fractions of symbolic ints: what is made an int of them without a guard on the value."""

from __future__ import annotations

import math
import random

import pytest
import torch

import stator
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


ROUNDED = [
    lambda n: (int(n * 0.3), math.ceil(n * 0.1), math.floor((n - 9) * 0.7), round(n * 0.35)),
    lambda n: (int((n - 9) / 2), round(n / 2), int(int(n * 0.6) * 0.7), round((n // 2 + 1) ** 0.5)),
]


@pytest.mark.parametrize("function", ROUNDED)
def test_what_is_no_fraction_is_calculated_again(function):
    sizes = [(torch.ones(n),) for n in (10, 20, 30, 7, 9, 11)]
    check(lambda x: (x + 1, function(x.shape[0])), vary=sizes, expect_recompiles=1, expect_graphs=None)


def test_sizes_are_rounded_floats():
    def f(x, ratio):
        kept = int(x.shape[1] * (1 - ratio))
        order = x.sum(-1).argsort(1)[:, :kept]
        mask = torch.ones(x.shape[:2])
        mask[:, :kept] = 0
        return torch.gather(x, 1, order[..., None].expand(-1, -1, x.shape[-1])), mask, kept

    calls = [(torch.randn(2 + i, n, 4), r) for i, (n, r) in enumerate([(9, 0.3), (12, 0.45), (20, 0.61), (31, 0.75)])]
    check(f, vary=calls, expect_recompiles=1, expect_graphs=None)


def test_roundings_that_raise_do_so_in_the_program():
    def f(x, s):
        try:
            return x[: int(s * 2.5)]
        except (OverflowError, ValueError) as error:
            return x, str(error)

    calls = [(torch.arange(50), s) for s in (2.0, 3.5, 7.25, math.inf, math.nan, -1e15, 1e-9, -2.5)]
    check(f, vary=calls, expect_recompiles=None, expect_graphs=None)


def test_the_smaller_of_two_ratios():
    """How pictures are fitted into a frame."""

    def program(x):
        height, width = x.shape
        ratio = min(16 / height, 16 / width, 2.0)
        scaled = round(height * ratio), int(width * max(ratio, 0.1))
        return torch.zeros(scaled[0] + 1, scaled[1] + 1), ratio, x.sum() if ratio > 0.2 else x

    compiled = stator.compile(program, backend="eager")
    for i in range(8):
        x = torch.randn(10 + 3 * i, 14 + i)
        found, expected = compiled(x), program(x)
        assert found[0].shape == expected[0].shape
        assert found[1] == expected[1]
    assert stator.stats()["recompiles"] == 1


def test_whole_ratios():
    def program(x):
        parts = x.shape[1] / 8
        return x * 2 if parts.is_integer() else x + math.ceil(parts) * 8

    check(program, vary=[(torch.randn(2, n),) for n in (16, 24, 32, 20, 40, 30)], expect_graphs=3, expect_recompiles=2)


def test_whole_floats():
    def program(x, s):
        return x * s if s.is_integer() else x + s

    numbers = (2.0, 3.0, 5.0, 2.5, 1e300, math.inf, -4.0, math.nan)
    check(program, vary=[(torch.ones(3), s) for s in numbers], expect_graphs=None, expect_recompiles=None)
