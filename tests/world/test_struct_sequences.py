"""Tuples of C types with named fields that come from outside."""

from __future__ import annotations

import sys
from typing import Any

import torch

import stator
from tests.harness import check

LARGEST = torch.max(torch.arange(6.0).reshape(3, 2), 0)


def test_results_of_torch() -> None:
    def fn(x: Any, given: Any) -> Any:
        return x + LARGEST.values, type(given), given, given[1], LARGEST.indices

    check(fn, torch.ones(2), torch.sort(torch.ones(2)))


def test_arguments_of_hooks() -> None:
    given: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, given.append

    class Failing:
        def __del__(self) -> None:
            raise ValueError("end")

    Failing()
    sys.unraisablehook = before

    def fn(x: Any) -> Any:
        error = given[0]
        return x + len(error), error.exc_type, error[1].args, type(error).__name__

    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        got, want = compiled(torch.ones(2)), fn(torch.ones(2))
        assert torch.equal(got[0], want[0])
        assert got[1:] == want[1:]
