"""Calls that CPython runs as they are have no frame of stator below them, and what only returns none above."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

X = torch.ones(2)


def raising(x: Any) -> Any:
    raise ValueError(sys._getframe(1).f_code.co_name)


def watching(x: Any) -> Any:
    sys.settrace(None)
    warnings.warn("from above", stacklevel=2)
    return sys._getframe(1).f_code.co_name, x + 1


def behind_a_break(x: Any) -> Any:
    y = x + 1
    stator.graph_break()
    return raising(y) if sys._getframe(1).f_code.co_name else y


def outcome(program: Any) -> Any:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = str(program(X))
        except ValueError as error:
            result = repr(error)
    return result, [(str(each.message), each.filename, each.lineno) for each in said]


@pytest.mark.parametrize("program", [raising, watching, behind_a_break])
def test_the_caller_is_the_programs(program: Any) -> None:
    compiled = stator.compile(program, backend="eager")
    expected = outcome(program)
    assert [outcome(compiled) for _ in range(3)] == [expected] * 3


def counting(x: Any, n: str) -> Any:
    return sys._getframe(1).f_code.co_name, x + len(n.upper())


@pytest.mark.filterwarnings("ignore:stator runs this function eagerly")
def test_beyond_the_recompile_limit() -> None:
    compiled = stator.compile(counting, backend="eager", options={"recompile_limit": 1})
    assert [compiled(X, "a" * n)[0] for n in range(4)] == ["<listcomp>"] * 4


@stator.disable
def opaque(x: Any) -> Any:
    return x * 2


def last(x: Any) -> Any:
    return opaque(x + 1)


def two_deep(x: Any) -> Any:
    y = x.sin()
    return last(y)


def in_a_block(x: Any) -> Any:
    try:
        return opaque(x + 1)
    finally:
        x.add_(1)


class Net(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return last(x)


@pytest.mark.parametrize(("program", "captures"), [(last, 1), (two_deep, 1), (Net(), 1), (in_a_block, 2)])
def test_what_only_returns_is_not_captured(program: Any, captures: int) -> None:
    check(program, X, fullgraph=False, expect_breaks=1)
    stator.reset()
    stator.compile(program, backend="eager")(torch.ones(2))
    assert stator.stats()["frames_captured"] == captures
