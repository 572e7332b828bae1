"""Sums with a multiple of a matrix product, and steps of optimizers that follow each other, with Inductor."""

from __future__ import annotations

from typing import Any

import torch

import stator
from tests.harness import check


def sums(w: Any, x: Any, y: Any, n: int) -> Any:
    product = x @ y
    return torch.add(w, product, alpha=-0.5), torch.add(x @ w, y, alpha=3), w.add(y @ w, alpha=n), product


def test_sums_of_products() -> None:
    args = [torch.randn(4, 4) for _ in range(3)]
    check(sums, vary=[(*args, n) for n in (2, 3, 4)], backend="inductor", tolerance=1e-5, expect_recompiles=None)


def test_two_steps_of_an_optimizer() -> None:
    x = torch.randn(5, 4)

    def trained(compiler: Any) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def epoch(x: Any) -> None:
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

        compiler(epoch)(x)
        return model.weight.detach()

    compiled = trained(lambda epoch: stator.compile(epoch, backend="inductor"))
    torch.testing.assert_close(compiled, trained(lambda epoch: epoch))
