"""What sizes that vary cost to capture: as much for each of many as for each of a few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.shapes.counting import calls


def joined(xs: list[torch.Tensor]) -> Any:
    rows = sum(x.shape[0] for x in xs)
    return torch.cat(xs).view(rows) * 2, [x.sum() / x.shape[0] for x in xs]


def branching(xs: list[torch.Tensor]) -> Any:
    return [x * 2 if x.shape[0] > 3 else x + 1 for x in xs]


def paired(xs: list[torch.Tensor]) -> Any:
    return [a + b for a, b in zip(xs[::2], xs[1::2], strict=True)]


def padded(xs: list[torch.Tensor]) -> Any:
    return [torch.nn.functional.pad(x, (0, -x.shape[0] % 8)).view(-1, 8) for x in xs]


MOST = {joined: 4_000, branching: 7_500, paired: 8_000, padded: 12_000}  # calls of functions for one size


@pytest.mark.parametrize("program", MOST)
def test_no_more_for_each_of_more(program: Callable[..., Any]) -> None:
    def cost(count: int) -> int:
        return calls(program, [torch.ones(5 + i // 2) for i in range(count)], dynamic=True)

    cost(10)  # what is found out once for the process
    few, some, many = cost(40), cost(120), cost(200)
    assert many - some <= 1.15 * (some - few)  # sympy remembers some of it, as other tests have left room for
    assert many - some <= 80 * MOST[program]
