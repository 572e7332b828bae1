"""Loops of generators whose number of rounds differs from call to call: nothing is compiled once per number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

LENGTHS = (4, 6, 2, 9, 12, 5, 7, 8, 3, 10, 11, 20)


@stator.disable
def excluded(x: Any) -> Any:
    return x + 1


def numbers(n: int) -> Iterator[int]:
    for i in range(n):
        yield i


def passed_on(n: int) -> Iterator[int]:
    yield from numbers(n)


class Rows:
    def __init__(self, x: Any, n: int) -> None:
        self.x, self.n = x, n

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.n):
            yield self.x * i


def without_break(x: Any, n: int) -> Any:
    for i in numbers(n):
        x = x.sin() + i
    return x


def break_in_consumer(x: Any, n: int) -> Any:
    for i in numbers(n):
        x = excluded(x.sin() + i) * 2
    return x


def break_behind_two(x: Any, n: int) -> Any:
    for i in passed_on(n):
        x = excluded(x.sin() + i) * 2
    return x


def closure(x: Any, n: int) -> Any:
    def rows() -> Iterator[Any]:
        for i in range(n):
            yield x * i + 1

    total = x * 0
    for row in rows():
        total = excluded(total + row.sin())
    return total * 2


def method(x: Any, n: int) -> Any:
    y = x
    for row in Rows(x, n):
        y = excluded(y.sin() + row)
    return y


def sum_of_floats(x: Any, n: int) -> Any:
    return sum(float((x * i).sum()) for i in range(n)) + x * 2


def sum_of_tensors(x: Any, n: int) -> Any:
    return sum(((x * i).sin() for i in range(n)), x * 2)


def sum_of_parts(x: Any, n: int) -> Any:
    return sum(torch.tanh(part) for part in x.expand(n, 4).unbind(0))


def largest(x: Any, n: int) -> Any:
    return max(float((x * i).sum()) for i in range(n)) + x * 2


def any_of_all(x: Any, n: int) -> Any:
    return any(bool((x * i).sum() > 1e9) for i in range(n)), x * 2 + 1


def joined(x: Any, n: int) -> Any:
    return ",".join(f"{(x * i).sum().item():.1f}" for i in range(n)), x * 2 + 1


def stacked(x: Any, n: int) -> Any:
    return torch.stack(list(excluded(x * i).sin() for i in range(n))) * 2


def mapped(x: Any, n: int) -> Any:
    return torch.stack(list(map(lambda i: excluded(x * i).sin(), range(n)))) * 2


def sent(x: Any, n: int) -> Any:
    def steps(y: Any) -> Any:
        for i in range(n):
            y = yield y.sin() * 2 + i

    going = steps(x)
    y = next(going)
    for _ in range(n - 1):
        y = going.send(excluded(y))
    return y * 2


PROGRAMS = [without_break, break_in_consumer, break_behind_two, closure, method, sum_of_floats, sum_of_tensors,
            sum_of_parts, largest, any_of_all, joined, stacked, mapped, sent]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_captures_do_not_grow_with_the_numbers(program: Any) -> None:
    compiled, x = stator.compile(program), torch.linspace(0, 1, 4)
    for n in LENGTHS[:4]:
        compiled(x, n)
    made = stator.stats()
    for n in LENGTHS[4:]:
        compiled(x, n)
    assert stator.stats() == made
    assert made["frames_captured"] <= 11 and made["graphs"] <= 4 and not events.events("skip")


@pytest.mark.parametrize("program", PROGRAMS)
def test_results(program: Any) -> None:
    vary = [(torch.linspace(0, 1, 4), n) for n in LENGTHS[:5]]
    check(program, vary=vary, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_one_number_is_one_graph() -> None:
    check(sum_of_tensors, torch.ones(4), 5, calls=3, expect_graphs=1)
