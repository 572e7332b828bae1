"""Methods of numbers that vary, kept by the program: over a break, in containers and in what it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check


def kept_over_a_break(x: Any, n: int) -> Any:
    count, half = n.bit_count, (n * 0.5).is_integer
    stator.graph_break()
    return x * n, count(), half()


def kept_in_a_list(x: Any, n: int) -> Any:
    methods = [n.bit_length, n.bit_count, n.conjugate, x.shape[0].bit_length, n.__add__]
    stator.graph_break()
    return x + 1, [method() for method in methods[:-1]], methods[-1](2)


def of_data(x: Any, n: int) -> Any:
    total = int(x.sum().item())
    length = total.bit_length
    stator.graph_break()
    return length(), x + n


def asked_about(x: Any, n: int) -> Any:
    method = n.bit_count
    return x + n, method.__name__, method.__self__ + 1, method()


def compared(x: Any, n: int) -> Any:
    m = n + 0
    same = n.bit_count == n.bit_count, n.bit_count == n.conjugate, n.bit_count == n, {n.bit_count: 1}[n.bit_count]
    return x + m, same, n.bit_count in [n.conjugate, n.bit_count], n.bit_count != n.bit_count


def given_to_c(x: Any, n: int) -> Any:
    later, rounds = functools.partial(n.bit_length), iter(n.conjugate, n)
    return x + n, callable(n.bit_count), later(), list(rounds), sorted([3, 1], key=n.__rsub__)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [kept_over_a_break, kept_in_a_list, of_data, asked_about, compared, given_to_c])
def test_called_later(program: Callable[..., Any], dynamic: bool | None) -> None:
    calls = [(torch.ones(n + 1), n) for n in (3, 5, 12, 7)]
    check(program, vary=calls, fullgraph=False, dynamic=dynamic, expect_recompiles=None, expect_breaks=None)


@pytest.mark.parametrize("dynamic", [None, True])
def test_returned(dynamic: bool | None) -> None:
    def methods(x: Any, n: int) -> Any:
        return x + n, n.bit_count, [n.conjugate], (n + 0.5).is_integer

    compiled = stator.compile(methods, backend="eager", dynamic=dynamic)
    for n in (3, 5, 12):
        made = [compiled(torch.ones(2), n)[i] for i in (1, 3)] + compiled(torch.ones(2), n)[2]
        plain = [methods(torch.ones(2), n)[i] for i in (1, 3)] + methods(torch.ones(2), n)[2]
        assert [method() for method in made] == [method() for method in plain]
        assert [*map(type, made)] == [*map(type, plain)]
        assert [method.__self__ for method in made] == [method.__self__ for method in plain]


def test_arguments_that_they_do_not_take() -> None:
    def wrong(x: Any, n: int) -> Any:
        return x + n, n.bit_count(1)

    check(wrong, vary=[(torch.ones(2), 3), (torch.ones(2), 5)], fullgraph=False, expect_recompiles=None)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_ints_with_more_digits_than_can_be_shown(fullgraph: bool) -> None:
    def counted(x: Any, n: int) -> Any:
        return x + n.bit_length(), n == 1, n

    compiled = stator.compile(counted, backend="eager", fullgraph=fullgraph)
    with events.recording("error") as wrong:
        for n in (10**5000, 10**6000, 3, 10**5000 + 1):
            made, is_one, same = compiled(torch.ones(2), n)
            assert torch.equal(made, torch.ones(2) + n.bit_length())
            assert not is_one
            assert same == n
    assert not wrong
