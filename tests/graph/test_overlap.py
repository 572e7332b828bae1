"""A graph that writes to inputs serves calls whose inputs share memory, and those whose inputs do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 2


def pair(rows: int, shared: bool, grad: bool) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.ones(rows, 4, requires_grad=grad) * 1
    return x, x[0] if shared else torch.ones(4, requires_grad=grad) * 1


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_first_call_decides_nothing(order: tuple[bool, bool], grad: bool) -> None:
    compiled = stator.compile(add, backend="aot_eager")
    for rows in (3, 4, 5):
        for shared in order:
            expected: Any = pair(rows, shared, grad)
            given = pair(rows, shared, grad)
            assert torch.equal(add(*expected), compiled(*given))
            assert torch.equal(expected[0], given[0]) and torch.equal(expected[1], given[1])
