"""Floats in small tensors: taken from the graph where it can give them, read before it where Python calculates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


def given(x: Any) -> Any:
    return x.sum().item(), x + 1


def given_input(x: Any) -> Any:
    return x[0].item()


def given_before_a_write(x: Any) -> Any:
    y = x * 2
    total = y[0].item()
    y.add_(1)
    return total, y, y[0].item()


def input_before_a_write(x: Any) -> Any:
    first = x[0].item()
    x.mul_(3)
    return first, x[0].item()


def whole(x: Any) -> Any:
    return x * int(x.sum().item())


def whole_before_a_write(x: Any) -> Any:
    n = x[-1].item()
    x.add_(1)
    return x * int(n)


def factor(x: Any) -> Any:
    return x * x.max().item()


def factor_before_a_write(x: Any) -> Any:
    last = x[-1].item()
    x.sub_(5)
    return x * last, last


def power(x: Any) -> Any:
    n = x.sum().item()
    return x * 0.5**n, n


def in_containers(x: Any) -> Any:
    n = x.sum().item()
    return {"n": n, "all": [n, n + 1]}, x / (n + 1)


def of_a_result_with_history(x: Any) -> Any:
    loss = (x.requires_grad_() * 2).sum()
    return loss, loss.item()


def data_replaced(x: Any) -> Any:
    y = x.sum()
    n = y.item()
    y.data = y.data + 1
    return n, y


@pytest.mark.parametrize(
    "program",
    [
        given, given_input, given_before_a_write, input_before_a_write, whole, whole_before_a_write, factor,
        factor_before_a_write, power, in_containers, of_a_result_with_history, data_replaced,
    ],
)  # fmt: skip
@pytest.mark.parametrize("length", [1, 3])
def test_readings(program: Callable[..., Any], length: int) -> None:
    calls = [(torch.tensor([1.5, 2.0, 3.25])[:length].clone(),), (torch.tensor([4.0, -2.5, 0.5])[:length].clone(),)]
    if program is power and length > 1:  # what leads to the number is more than numbers
        check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_breaks=None, expect_recompiles=None)
    else:
        check(program, vary=calls)


@pytest.mark.parametrize("program", [given, whole, factor])
def test_nothing_is_read_before_the_graph(program: Callable[..., Any]) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(inputs)
        return graph.forward

    x = torch.tensor([1.5])
    stator.compile(program, backend=backend, fullgraph=True)(x)
    assert [len(inputs) for inputs in graphs] == [1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_drawn_in_place_are_drawn_once(backend: str) -> None:
    def scaled(x: Any, rate: float) -> Any:
        drawn = torch.empty(1).uniform_(0, 1) + rate
        return x * drawn.item() ** 2, round(drawn.item(), 2), drawn

    def dropped(x: Any, rate: float) -> Any:
        return (x, rate) if torch.empty(1).uniform_(0, 1) < rate else (x * torch.zeros(1).exponential_().item(), 0)

    calls = [(torch.arange(3.0), rate) for rate in (0.1, 0.3, 0.9, 0.5)]
    for program in (scaled, dropped):
        check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None, backend=backend)
