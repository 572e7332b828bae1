"""Ints and floats that vary next to numbers of classes of their own: members of an IntEnum, decimals."""

from __future__ import annotations

import datetime
import decimal
import enum
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
