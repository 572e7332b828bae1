"""Gradients and hooks behind a break, of tensors that a traced graph made: their history is the one of eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import grad

import stator
from tests.harness import check


def broken(x: Any) -> Any:
    y = x.sin()
    stator.graph_break()
    return (y * y).sum()


def hooked(x: Any) -> Any:
    seen: list[Any] = []
    h = x * 2
    y = (h * h).sum()
    stator.graph_break()
    h.register_hook(lambda grad: seen.append(grad.sum()))
    y.backward()
    return seen, x.grad


def with_respect_to(x: Any) -> Any:
    h = x * 2
    y = (h * h).sum()
    stator.graph_break()
    return torch.autograd.grad(y, h)


def by_another_name(x: Any) -> Any:
    h = x * 2
    y = (h * h).sum()
    stator.graph_break()
    return grad(y, h)


def gradient(y: Any, h: Any) -> Any:
    return torch.autograd.grad(y, h)


def by_a_function(x: Any) -> Any:
    h = x * 2
    y = (h * h).sum()
    stator.graph_break()
    return gradient(y, h)


def doubled(x: Any) -> Any:
    stator.graph_break()
    return x * 2


def inside_of_the_call(x: Any) -> Any:
    h = x * 2
    y = (h * h).sum()
    return torch.autograd.grad(
        y + doubled(y),
        h,
    )


def at_the_call(x: Any) -> Any:
    h = x * 2
    y = (h * h)[h > 1].sum()
    return torch.autograd.grad(y, h)  # a size depends on data, so that this is a break


class ByAMethod:
    def gradient(self, y: Any, h: Any) -> Any:
        return gradient(y, h)

    def __call__(self, x: Any) -> Any:
        h = x * 2
        y = (h * h).sum()
        stator.graph_break()
        return self.gradient(y, h)


def penalty(x: Any) -> Any:
    y = (x * x * x).sum()
    stator.graph_break()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    stator.graph_break()
    (grad * grad).sum().backward()
    return x.grad


def second_order(x: Any) -> Any:
    x = x.detach()
    return torch.autograd.functional.hessian(broken, x), torch.autograd.functional.hvp(broken, x, torch.ones(3))


def tangents(x: Any) -> Any:
    return torch.autograd.functional.jvp(lambda a: broken(a) * a, x.detach(), torch.ones(3))


PROGRAMS = [
    hooked,
    with_respect_to,
    by_another_name,
    by_a_function,
    ByAMethod(),
    inside_of_the_call,
    at_the_call,
    penalty,
    second_order,
    tangents,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_traced(program: Any) -> None:
    compiled = stator.compile(program, backend="aot_eager")
    for _ in range(2):
        expected = program(torch.ones(3, requires_grad=True))
        torch.testing.assert_close(compiled(torch.ones(3, requires_grad=True)), expected)


class TwoLosses(torch.nn.Module):
    """A weight changes between two backward passes, the second of which does not need it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.second = (torch.nn.Linear(3, 3) for _ in range(3))

    def forward(self, x: Any) -> Any:
        losses = self.hidden(self.first(x)).square().sum(), self.second(x).square().sum()
        stator.graph_break()
        return self.learn(*losses)

    def learn(self, one: Any, other: Any) -> Any:
        one.backward(retain_graph=True)
        with torch.no_grad():
            self.hidden.weight.sub_(0.1)
        other.backward()
        return [weight.grad for weight in self.parameters()]


def test_a_weight_changes_between_two_passes() -> None:
    check(TwoLosses(), torch.randn(2, 3), backend="aot_eager", fullgraph=False, expect_graphs=None, expect_breaks=None,
          expect_recompiles=None, tolerance=1e-6)  # fmt: skip


def plain(x: Any) -> Any:
    h = x * 2
    stator.graph_break()
    return h.sum()


def taken_before(x: Any) -> Any:
    y = x.sin()
    (taken,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    stator.graph_break()
    return (y * taken).sum()


def taken_twice_before(x: Any) -> Any:
    y = x.sin()
    (taken,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    stator.graph_break()
    return (y * taken).sum()


class Watched(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(lambda module, given, result: stator.graph_break())

    def forward(self, x: Any) -> Any:
        return x * 2


watched = Watched()


def through_a_module(x: Any) -> Any:
    return watched(x).sin().sum()


@pytest.mark.parametrize("program", [plain, taken_before, taken_twice_before, through_a_module])
def test_training_is_traced(program: Any) -> None:
    """Where nobody asks for a history any more, the graph before a break is one for the backend."""
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    x, same = (torch.ones(3, requires_grad=True) for _ in range(2))
    program(same).backward()
    stator.compile(program, backend=backend)(x).backward()
    assert len(graphs) == 2 and torch.equal(x.grad, same.grad)


def test_pullback_behind_a_break() -> None:
    def program(x: Any) -> Any:
        y, pullback = torch.func.vjp(lambda a: a.sin() * a, x * 2)
        stator.graph_break()
        return y + 1, pullback(torch.ones(3)), x * 2 + 1

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert str(compiled(torch.ones(3))) == str(program(torch.ones(3)))
    assert stator.stats()["graphs"] >= 2
