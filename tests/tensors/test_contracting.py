"""Einstein sums of several tensors where opt_einsum is installed."""

from __future__ import annotations

import pytest
import torch
from torch.backends import opt_einsum

import stator
from tests.harness import check


class Looking:
    """Stands for opt_einsum: gives an order for the sizes that it is shown, as numbers."""

    asked: list[object] = []

    @staticmethod
    def contract_path(equation, *operands, shapes=False, optimize=None):
        Looking.asked.append(optimize)
        sizes = [int(n) for operand in operands for n in (operand if shapes else operand.shape)]
        if len(equation.split("->")[0].split(",")) != len(operands):
            raise ValueError("Number of einsum subscripts must be equal to the number of operands.")
        return [(0, 1) if max(sizes) == 5 else (1, 2), (0, 1)], None


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    settings = opt_einsum.get_opt_einsum.__globals__
    monkeypatch.setitem(settings, "_opt_einsum", Looking)
    monkeypatch.setitem(settings, "strategy", "auto")
    monkeypatch.setitem(settings, "enabled", True)
    opt_einsum.is_available.cache_clear()
    yield
    opt_einsum.is_available.cache_clear()


def attention(context, q, scale):
    return torch.einsum("...de,...nd,...n->...ne", context, q, scale), torch.einsum(
        "bde,bnd,bn->ne", [context, q, scale]
    )


def calls():
    return [(torch.randn(n, 3, 2), torch.randn(n, 4, 3), torch.randn(n, 4)) for n in (2, 3, 5, 4, 7)]


def test_the_order_is_chosen_once():
    check(attention, vary=calls(), tolerance=1e-5, strides=False, expect_recompiles=1, expect_graphs=2)


def test_wrong_equations_raise_as_ever():
    def program(context, q, scale):
        return torch.einsum("bde,bnd->ne", context, q, scale)

    check(program, vary=calls(), fullgraph=False, expect_recompiles=None, expect_graphs=None, expect_breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_strategy_is_guarded(monkeypatch, backend):
    def program(context, q, scale):
        return torch.einsum("bde,bnd,bn->ne", context, q, scale)

    compiled = stator.compile(program, backend=backend)
    for strategy in ("auto", "greedy", "optimal"):
        monkeypatch.setitem(vars(opt_einsum), "strategy", strategy)
        Looking.asked.clear()
        compiled(*calls()[0])
        assert set(Looking.asked) == {strategy}


def test_settings_that_torch_keeps_in_modules(monkeypatch):
    def program(x):
        return x + 1, opt_einsum.strategy, opt_einsum.enabled

    compiled = stator.compile(program, backend="eager")
    for strategy in ("auto", "greedy", "optimal"):
        monkeypatch.setitem(vars(opt_einsum), "strategy", strategy)
        assert compiled(torch.ones(1))[1:] == (strategy, True)
