"""Graphs of AOTAutograd that run operation by operation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import stator
from stator.graph.replayed import divide

FORMS = [
    lambda x: x.std(0),
    lambda x: torch.var(x, 0),
    lambda x: torch.std_mean(x, 0)[0],
    lambda x: (x - x.mean(0)) / (x.std(0) + 1e-3),
    lambda x: x.var(0, correction=2),
]


def gradient(function: Any, x: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.clone().requires_grad_()
    result = function(x, *others)
    result.sum().backward()
    return result.detach(), x.grad


@pytest.mark.filterwarnings("ignore")  # degrees of freedom
@pytest.mark.parametrize("form", FORMS)
def test_formulas_divide_by_zero_as_torch_does(form: Any) -> None:
    """A mask may leave a single row, or as many as the correction."""
    masked = lambda x, mask: form(x[mask])
    compiled = stator.compile(masked, backend="aot_eager")
    x = torch.arange(24.0).reshape(6, 4).sin()
    for count in (3, 1, 2, 5):
        mask = torch.arange(6) < count
        torch.testing.assert_close(gradient(compiled, x, mask), gradient(masked, x, mask), equal_nan=True)


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 0.0), (-1.0, 0.0), (1.0, -0.0), (2.0, 0), (0.0, 0.0), (math.nan, 0.0), (3.0, 2.0)]
)
def test_division(a: float, b: float) -> None:
    expected = (torch.tensor(a, dtype=torch.float64) / torch.tensor(b, dtype=torch.float64)).item()
    assert repr(divide(a, b)) == repr(expected).replace("-nan", "nan")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "form",
    [
        lambda x: x.std(),
        lambda x: torch.var(x, False),
        lambda x: torch.var_mean(x, unbiased=True)[0],
        lambda x: (x - x.mean()) / (x.std(correction=0, keepdim=True) + 1e-8),
    ],
)
def test_deviations_of_all_elements_are_compiled_twice(form: Any, backend: str) -> None:
    """Torch's formula for the gradient would make the number of elements a constant."""
    stator.reset()
    compiled = stator.compile(form, backend=backend)
    for count in (3, 4, 2, 5, 7):
        x = torch.arange(count * 4.0).reshape(count, 4).sin()
        torch.testing.assert_close(gradient(compiled, x), gradient(form, x))
    assert stator.stats()["frames_captured"] == 2
