"""Ints and bools in tensors from outside: no graph is needed to read them, unless it writes to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


def given(n: Any) -> Any:
    return n.item(), [n.item() + 1]


def after_a_write(n: Any) -> Any:
    n.add_(1)
    return n.item()


def before_a_write(n: Any) -> Any:
    before = n.item()
    n.add_(1)
    return before, n.item()


def written_through_a_view(n: Any) -> Any:
    before = n.item()
    n.view(1).mul_(2)
    return before


def other_data(n: Any) -> Any:
    before = n.item()
    n.data = n.data + 5
    return before, n.item()


def other_data_at_last(n: Any) -> Any:
    before = n.item()
    n.data = torch.tensor(7)
    return before


def size(n: Any) -> Any:
    return torch.zeros(n.item()), n.item()


PROGRAMS = [given, after_a_write, before_a_write, written_through_a_view, other_data, other_data_at_last, size]


@pytest.mark.parametrize("program", PROGRAMS)
def test_values(program: Callable[..., Any]) -> None:
    calls = [(torch.tensor(n),) for n in (3, 4, 6)]
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_breaks=None)


def shared(n: Any, m: Any) -> Any:
    before = n.item()
    m.add_(1)
    return before


def test_one_number_is_one_object() -> None:
    def program(n: Any) -> Any:
        found = n.item()
        return found, [found]

    first, (second,) = stator.compile(program, backend="eager", fullgraph=True)(torch.tensor(12345))
    assert first is second


def test_memory_of_two_inputs() -> None:
    compiled = stator.compile(shared, backend="eager")
    for start in (3, 8):
        n = torch.tensor(start)
        assert compiled(n, n.view(())) == start and n.item() == start + 1
        assert compiled(n, torch.tensor(1)) == start + 1


def test_no_graph() -> None:
    stator.reset()
    compiled = stator.compile(given, backend="eager", fullgraph=True)
    assert [compiled(torch.tensor(n)) for n in (3, 5)] == [(3, [4]), (5, [6])]
    assert stator.stats()["graphs"] == 0
