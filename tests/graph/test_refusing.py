"""What eager refuses because of data, code compiled by Inductor refuses too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from stator.graph.refusing import refusing
from tests.harness import check

X = torch.arange(12.0).reshape(4, 3)
GOOD, BELOW = torch.tensor([0, 3]), torch.tensor([0, -1])
ROW = torch.ones(2, 3)


def traced(program: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """The operations that Inductor compiles."""
    from torch._inductor.decomposition import decompositions

    return make_fx(program, decomposition_table=decompositions)(*args)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.index_add(0, i, ROW, alpha=2),
        lambda x, i: x.index_copy(0, i, ROW),
    ],
)
def test_indices_below_zero(program: Callable[..., Any]) -> None:
    with refusing():
        graph = traced(program, X, GOOD)
    assert torch.equal(graph(X, GOOD), program(X, GOOD))
    with pytest.raises(IndexError):
        graph(X, BELOW)
    traced(program, X, GOOD)(X, BELOW)  # Inductor's own formula


def test_no_tensor_is_made_of_a_size() -> None:
    """Of one from data it could not be: neither forward nor backward would know it."""
    from torch._inductor.decomposition import decompositions

    def program(x: torch.Tensor, i: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, i, row)

    with refusing():
        graph = make_fx(program, decomposition_table=decompositions, tracing_mode="symbolic")(X, GOOD, ROW).graph
    assert not any(type(node.args[0]) is not int for node in graph.nodes if "scalar_tensor" in str(node.target))


def test_places_beyond_a_constant_tensor() -> None:
    def program(index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(2, 3).scatter(1, index, 1.5)

    def backward(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(F.nll_loss(x, target), x)[0]

    with refusing():
        graph = traced(program, torch.tensor([[0], [2]]))
        untouched = traced(backward, torch.randn(2, 3, requires_grad=True), torch.tensor([0, 2]))
    assert "scatter.src" in graph.code and "scatter.value" in untouched.code  # type: ignore[attr-defined]
    assert torch.equal(graph(torch.tensor([[0], [2]])), program(torch.tensor([[0], [2]])))


def test_probabilities() -> None:
    def program(p: torch.Tensor) -> Any:
        return F.binary_cross_entropy(p, torch.ones(2)), torch.bernoulli(p)

    with refusing():
        graph = traced(program, torch.ones(2))
    assert "binary_cross_entropy.default" in graph.code and "bernoulli.default" in graph.code  # type: ignore[attr-defined]
    assert "bernoulli.default" not in traced(program, torch.ones(2)).code  # type: ignore[attr-defined]


@pytest.mark.inductor
def test_compiled() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> Any:
        return F.binary_cross_entropy(x.index_select(0, i).sigmoid() * x[0, 2], ROW / 2)

    calls = [(X, GOOD), (X, BELOW), (X * 2, GOOD)]
    check(program, vary=calls, backend="inductor", tolerance=1e-5, strides=False, fullgraph=False, expect_breaks=None)
