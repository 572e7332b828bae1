"""Code that Inductor made for some sizes only, forward or backward, serves no others; nor does what its cache has."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator
from stator.shapes import cached_guards
from tests.harness import check


def test_backward_for_one_length() -> None:
    convolution = torch.nn.Conv1d(2, 3, 3, padding=1)

    def program(x: Any) -> Any:
        return convolution(x).relu().mean(-1)

    calls = [(torch.randn(rows, 2, length, requires_grad=True),) for rows, length in [(4, 5), (3, 7), (2, 6), (2, 7)]]
    for _ in range(2):  # what the first compiled is in the cache
        check(program, vary=calls, backend="inductor", backward=True, tolerance=1e-5, expect_recompiles=None)
        stator.reset()


class Env:
    """Two symbols, and what is said of them."""

    def __init__(self) -> None:
        import sympy

        self.symbols = self
        self.guards: list[Any] = []
        self.backed_var_to_val = {sympy.Symbol(name, integer=True): value for name, value in [("s1", 3), ("s0", 2)]}

    def symint(self, symbol: Any) -> str:
        return f"<{symbol}>"

    def asked_exactly(self) -> Any:
        import contextlib

        return contextlib.nullcontext()


@pytest.mark.parametrize("names", ["s0,s1", "s1", "s0,s2"])
def test_symbols_are_found_by_name(names: str) -> None:
    asked: list[Any] = []
    held = cached_guards.hold(Env(), names + "|code", lambda code, args: asked.append((code, args)) or True)
    known = {"s0,s1": [[2, 3], ["<s0>", "<s1>"]], "s1": [[3], ["<s1>"]], "s0,s2": []}[names]
    assert asked == [("code", args) for args in known] and held is bool(known)


def test_symbols_are_written_in_order() -> None:
    assert cached_guards.written(Env(), lambda args, guards: " ".join(args)) == "s0,s1|<s0> <s1>"
    assert cached_guards.written(Env(), lambda args, guards: None) is None
