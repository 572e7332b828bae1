"""Whole models in one graph, equal to eager, forward and in training."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.harness import ENGINE, Engine, check, engine
from tests.models.zoo import ZOO, make

# Backends and how far their floating-point results may be from eager; None: equal to the bit.
TOLERANCE = {"eager": None, "aot_eager": 1e-5, "inductor": 1e-4}
COMPILATIONS = ("graphs", "recompiles", "graph_breaks", "frames_captured", "frames_skipped")
CASES: list[Any] = [(name, backend) for backend in ("eager", "aot_eager") for name in ZOO]
MLP, LLAMA = (pytest.param(name, "inductor", marks=pytest.mark.inductor) for name in ("mlp", "llama"))


@pytest.mark.parametrize(("name", "backend"), [*CASES, MLP])
def test_forward(name: str, backend: str) -> None:
    model, inputs = make(name, train=False)
    with torch.no_grad():
        check(
            model,
            kwargs=inputs,
            backend=backend,
            tolerance=TOLERANCE[backend],
            strides=backend != "inductor",
            expect_graphs=1 if ENGINE == "stator" or backend == "eager" else None,
        )


class Trainer:
    """A model, its optimizer and the steps taken."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(self, call: Any, inputs: dict[str, Any], seed: int) -> torch.Tensor:
        """One step with gradients left in place; dropout draws the same numbers every time."""
        torch.manual_seed(seed)
        self.optimizer.zero_grad()
        loss = call(**inputs)["loss"]
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def _compilations(under_test: Engine) -> dict[str, int]:
    """What must not grow after the first step; torch itself compiles ViT twice."""
    return {name: n for name, n in under_test.counts().items() if ENGINE == "stator" and name in COMPILATIONS}


@pytest.mark.parametrize(("name", "backend"), [*CASES, MLP, LLAMA])
def test_training(name: str, backend: str) -> None:
    model, inputs = make(name, train=True)
    eager, trained = Trainer(model), Trainer(copy.deepcopy(model))
    under_test = engine()
    under_test.reset()
    compiled = under_test.compile(trained.model, fullgraph=True, backend=backend)
    tolerance = TOLERANCE[backend] or 0.0
    first: dict[str, int] = {}
    for seed in range(3):
        expected, loss = eager.step(eager.model, inputs, seed), trained.step(compiled, inputs, seed)
        torch.testing.assert_close(loss, expected, rtol=tolerance, atol=tolerance)
        for (path, theirs), mine in zip(eager.model.named_parameters(), trained.model.parameters(), strict=True):
            assert (theirs.grad is None) == (mine.grad is None), path
            torch.testing.assert_close(mine, theirs, rtol=10 * tolerance, atol=10 * tolerance)
            if theirs.grad is not None:
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=10 * tolerance, atol=tolerance)
        for theirs, mine in zip(eager.model.buffers(), trained.model.buffers(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
        if seed == 0:
            first = _compilations(under_test)
        assert _compilations(under_test) == first, f"step {seed} compiled again"
