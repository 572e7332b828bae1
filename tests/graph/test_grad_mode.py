"""Graphs that begin without grad mode and write to inputs in it: what is written has the history of eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator


def summed_up(x: Any, w: Any) -> Any:
    total = torch.zeros(3)
    total += x * w
    with torch.no_grad():
        stator.graph_break()
    total += w.exp()
    y = (total * total).exp().cos().sin().sum()
    stator.graph_break()
    y.backward()
    return x.grad, w.grad, torch.is_grad_enabled()


def summed_up_later(x: Any, w: Any) -> Any:
    total = torch.zeros(3)
    total += x * w
    with torch.no_grad():
        stator.graph_break()
        scale = total.mean() * 2 + total.amax()
    total += w.exp() * scale
    y = (total * total).exp().cos().sin().sum()
    stator.graph_break()
    y.backward()
    return x.grad, w.grad, torch.is_grad_enabled()


def summed_up_inside(x: Any, w: Any) -> Any:
    total = torch.zeros(3)
    with torch.no_grad():
        stator.graph_break()
        with torch.enable_grad():
            total += x.sin() * w
            y = total.cos().exp().cos().sin().tan().sum()
        stator.graph_break()
        enabled = torch.is_grad_enabled()
    (total * total + y).sum().backward()
    return x.grad, w.grad, enabled


@pytest.mark.parametrize("program", [summed_up, summed_up_later, summed_up_inside])
def test_gradients(program: Any) -> None:
    compiled = stator.compile(program, backend="aot_eager")
    for _ in range(2):
        mine, other = ([torch.ones(3, requires_grad=True), torch.full((3,), 0.5, requires_grad=True)] for _ in range(2))
        torch.testing.assert_close(compiled(*mine), program(*other))
