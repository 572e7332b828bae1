"""Views of inputs that were made in another grad mode than the one the graph ends in: autograd sees what eager made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator
from tests.harness import check


def without(x: Any, w: Any) -> Any:
    with torch.no_grad():
        view, first = w.view(-1), w[0]
    return view, first, x * 2


def within(x: Any, w: Any) -> Any:
    with torch.enable_grad():
        view, whole = w.view(-1), w * 2
        part = whole[0]
    with torch.no_grad():
        rest = whole[1]
    return view, whole, part, rest, x * 2


def inference(x: Any, w: Any) -> Any:
    with torch.inference_mode():
        view = w.view(-1)
    return view, x * 2


def broken(x: Any, w: Any) -> Any:
    with torch.no_grad():
        view = w.view(-1)
        stator.graph_break()
        part = view[:2]
    return view * 3, part * x, view


def leaves() -> tuple[Any, Any]:
    return torch.randn(2, requires_grad=True), torch.randn(2, 2, requires_grad=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("around", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("program", [without, within, inference, broken], ids=lambda program: program.__name__)
def test_results(program: Any, around: Any, backend: str) -> None:
    breaks = None if program in (broken, inference) else 0
    with around():
        check(program, *leaves(), backend=backend, fullgraph=breaks == 0, expect_breaks=breaks, expect_recompiles=None)


@pytest.mark.parametrize("program", [without, broken], ids=lambda program: program.__name__)
def test_gradients(program: Any) -> None:
    """What such a view is used for gives its base no gradient."""
    x, w = leaves()
    gradients = []
    for function in (program, stator.compile(program, backend="aot_eager")):
        x.grad = w.grad = None
        sum(result.sum() for result in function(x, w)).backward()
        gradients.append((w.grad, x.grad))
    assert gradients[0][0] is gradients[1][0] is None
    assert torch.equal(gradients[0][1], gradients[1][1])
