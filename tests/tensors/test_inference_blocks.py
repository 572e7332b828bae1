"""Blocks of inference mode in the middle of a graph for a backend that traces, and what is made in them behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


def between(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    with torch.inference_mode():
        kept = (x * w).tanh()
        kept.add_(1)
        kept = kept * w
    return y * kept.clone() * w


def at_both_ends(x: Any, w: Any) -> Any:
    with torch.inference_mode():
        first = (x * w).relu()
    with torch.inference_mode():
        second = x.sin() * first
    y = first.clone() * second.clone() * w
    with torch.inference_mode():
        last = (y + second).sum(0)
    return y * last.clone()


def asks_in_it(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        h = y.tanh()
        told = h.is_inference(), torch.is_inference_mode_enabled(), h.view(-1).is_inference()
    return y * h.clone(), told, h.is_inference(), h.clone().is_inference()


def other_modes_in_it(x: Any, w: Any) -> Any:
    with torch.inference_mode():
        with torch.enable_grad():
            early = x * w
        with torch.inference_mode(False):
            y = x * w
        with torch.enable_grad():
            late = y.tanh() * w
    return y * late.clone() + early.clone(), late.requires_grad


def in_autocast(x: Any, w: Any) -> Any:
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        first = x @ w
    y = x @ w
    with torch.autocast("cpu", dtype=torch.bfloat16):
        second = x @ w
        with torch.inference_mode():
            third = x @ w
        fourth = x @ w
    return y * first.clone() + (second + third.clone() * fourth).detach()


def chooses(x: Any, w: Any) -> Any:
    @torch.inference_mode()
    def best(scores: Any) -> Any:
        return scores.softmax(-1).argmax(-1)

    return torch.nn.functional.cross_entropy(x * w, best(x * w).clone())


def comes_out(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        h = y.tanh()
    return y, h, h.is_inference()


def view_comes_out(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        part = y.view(-1)
    return y * 2, part.is_inference(), part.requires_grad, part._is_view(), part


def write_to_a_view(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        part = w.view(-1)
    try:
        part.add_(1)
    except RuntimeError as error:
        return y, str(error)
    return y * part.sum()


def used_by_autograd(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        h = y.tanh()
    try:
        return y * h
    except RuntimeError as error:
        return str(error), y


def read_out(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        total = y.sum().item()
    return y * total


def break_in_it(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        h = y.tanh()
        stator.graph_break()
        h = h * 2
    return y * h.clone()


def break_behind_it(x: Any, w: Any) -> Any:
    y = x * w
    with torch.inference_mode():
        h = y.tanh()
    stator.graph_break()
    return y * h.clone()


WHOLE = [between, at_both_ends, asks_in_it, other_modes_in_it, in_autocast, chooses]
LEAVING = [comes_out, view_comes_out, write_to_a_view, used_by_autograd, read_out, break_in_it, break_behind_it]


def inputs(call: int) -> tuple[Any, ...]:
    x = torch.arange(9.0).view(3, 3) / 7 - 0.4 * (call + 1)
    return x, (x.flip(0) + 0.3).requires_grad_()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", WHOLE)
def test_in_one_graph(program: Callable[[Any, Any], Any], backend: str) -> None:
    check(program, vary=inputs, backend=backend, backward=True, expect_graphs=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", LEAVING)
def test_what_leaves_a_block(program: Callable[[Any, Any], Any], backend: str) -> None:
    check(
        program, vary=inputs, backend=backend, backward=True, fullgraph=False,
        expect_graphs=None, expect_recompiles=None, expect_breaks=None,
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_of_the_mode_stay_such(backend: str) -> None:
    compiled = stator.compile(comes_out, backend=backend, fullgraph=False)
    y, h, _ = compiled(*inputs(0))
    assert not y.is_inference() and y.requires_grad
    assert h.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        h.add_(1)
