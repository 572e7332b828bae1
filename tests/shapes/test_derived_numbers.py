"""Ints and floats that vary next to numbers of classes of their own: members of an IntEnum, decimals."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
from typing import Any

import pytest
import torch

from tests.harness import check


class Level(enum.IntEnum):
    LOW = 1
    MIDDLE = 2
    HIGH = 3


class Loud(int):
    def __radd__(self, other: Any) -> Any:
        return "loud"

    def __eq__(self, other: Any) -> Any:
        return NotImplemented

    __hash__ = int.__hash__


OPERATIONS: list[Any] = [
    lambda n: n == Level.MIDDLE,
    lambda n: Level.MIDDLE != n,
    lambda n: ([Level.HIGH] == [n], (n,) == (Level.MIDDLE,), n in (Level.MIDDLE, Level.HIGH)),
    lambda n: decimal.Decimal(2) == n,
    lambda n: (n + 0.5) + Loud(2),
    lambda n: (Level.HIGH - n, divmod(Level.HIGH, n), datetime.timedelta(seconds=1) * n, n + Loud(2), Loud(2) == n),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operators(operation: Any) -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return x + n, operation(n)

    check(f, vary=[(torch.ones(1), n) for n in (5, 6, 2, 3, 1)], expect_recompiles=None, expect_graphs=None)


def test_comparing_an_argument_that_is_one() -> None:
    def f(x: torch.Tensor, level: Any, n: int) -> Any:
        return ("same", x + n) if level == n else ("other", x - n)

    pairs = [(level, int(level) + more) for more in (0, 1) for level in Level]
    check(f, vary=[(torch.ones(1), *pair) for pair in pairs], expect_recompiles=None, expect_graphs=None)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x * sum(1 / k for k in range(1, n)),
        lambda x, n: x * sum(k * k for k in range(n)) + 1,
        lambda x, n: x * math.prod(range(1, n)),
        lambda x, n: x * max(k % 5 for k in range(n)),
        lambda x, n: x * sum(range(n)),
    ],
    ids=["fractions", "squares", "product", "largest", "range"],
)
def test_a_number_made_of_as_many_as_a_number_says(program):
    calls = [(torch.ones(3), n) for n in (3, 5, 4, 7, 9, 6, 8, 12, 10, 11)]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=4) == 0, report.counts
    assert report.gained("frames_skipped") == 0
