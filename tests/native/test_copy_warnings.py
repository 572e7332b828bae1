"""Copies of tensors by `torch.tensor` and `new_tensor`: torch warns of them, in the line of the program."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.harness import check

X = torch.arange(6.0).view(2, 3).t()


def copies(x):
    return torch.tensor(x), torch.tensor(x, dtype=torch.float64), torch.tensor(x > 2, device="cpu")


def new_copies(x):
    return x.new_tensor(x), x.new_tensor(x > 2), x.new_tensor(x, dtype=torch.int64)


def told_in_order(x):
    print("before")
    rows = [torch.tensor(row) for row in x]
    print("after")
    return rows


def caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.tensor(x) + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [copies, new_copies, told_in_order, caught])
def test_copies(program, backend):
    check(program, X, backend=backend)


def test_history_ends_at_a_copy():
    check(lambda x: torch.tensor(x * 2) * x, X.clone().requires_grad_(), backward=True)
