"""Where backward needs what a graph writes over in an input, Inductor is not asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.graph import backends
from tests.harness import check


def scaled(x: Any, w: Any) -> Any:
    x.mul_(w)
    return x.exp()


def multiplied(x: Any, w: Any) -> Any:
    x *= w
    return x.relu()


def clamped(x: Any, w: Any) -> Any:
    x.view(-1).clamp_(-0.5, 0.5)
    return x * w


def activated(x: Any, w: Any) -> Any:
    return F.silu(x, inplace=True) * w


def shifted(x: Any, w: Any) -> Any:
    x.mul_(2).add_(w)
    return F.relu(x, inplace=True)


def unrecorded(x: Any, w: Any) -> Any:
    with torch.no_grad():
        x.sin_()
    return x * w


def inside(x: Any, w: Any) -> Any:
    return F.batch_norm(x * 2, torch.zeros(3), torch.ones(3), training=True).clamp_(0, 1) + x.add_(w)


def statistics(x: Any, w: Any) -> Any:
    return F.silu(F.batch_norm(x * w, w.detach()[0], torch.ones(3), training=True), inplace=True)


@pytest.mark.parametrize(
    ("program", "asked"),
    [
        (scaled, 0),
        (multiplied, 0),
        (clamped, 0),
        (activated, 0),
        (shifted, 1),
        (unrecorded, 1),
        (inside, 1),
        (statistics, 1),
    ],
)
def test_who_compiles(program: Callable[..., Any], asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def inductor(graph: Any, inputs: Any, **options: Any) -> Any:
        seen.append(graph)
        return backends.aot_eager(graph, inputs)

    monkeypatch.setitem(backends.BACKENDS, "inductor", inductor)
    results = []
    for way in (program, stator.compile(program)):
        w, x = torch.full((2, 3), 2.0, requires_grad=True), torch.arange(6.0).reshape(2, 3).requires_grad_()
        y = way(x * 1, w)
        y.sum().backward()
        results.append((y.detach(), x.grad, w.grad))
    torch.testing.assert_close(*results)
    assert len(seen) == asked


def test_traces_that_keep_a_copy() -> None:
    check(scaled, torch.ones(3), torch.ones(3, requires_grad=True), backend="aot_eager", backward=True)
