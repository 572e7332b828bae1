"""Members of enumerations that are made in compiled code, of classes that exist already."""

from __future__ import annotations

import enum
from typing import Any

import torch

import stator


class Mode(enum.IntFlag):
    READ = 1
    WRITE = 2


def test_members_that_are_being_made() -> None:
    """One that has no name yet is no constant, and looking for what failed needs no name."""

    def f(x: torch.Tensor) -> Any:
        made = int.__new__(Mode, 9)
        made._value_ = 9
        stator.graph_break()
        seen = made is Mode.READ
        stator.graph_break()
        made._name_ = "OTHER"
        return seen, made.value, made.name, made, x + 1

    compiled = stator.compile(f, backend="eager")
    results = [compiled(torch.ones(1)) for _ in range(3)]
    assert [result[:3] for result in results] == [(False, 9, "OTHER")] * 3
    assert len({id(result[3]) for result in results}) == 3


def test_members_that_combine_others_behind_a_break() -> None:
    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        both = a | b
        stator.graph_break()
        return both, both is (a | b), both.value, x + 1

    compiled = stator.compile(f, backend="eager")
    for a in Mode:
        assert compiled(torch.ones(1), a, Mode.WRITE)[:3] == (a | Mode.WRITE, True, int(a) | 2)
