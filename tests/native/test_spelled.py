"""C functions that are loops: a break in what they call goes on in the middle of them, and ranks are one graph."""

from __future__ import annotations

import functools
import traceback
from typing import Any

import pytest
import torch

import stator
from stator import _frames
from tests.harness import check

X = torch.arange(12.0).reshape(4, 3).sin()
CALLS = [(X,), (X + 1,), (X.flip(0),)]


def same(program: Any, calls: Any = CALLS, **expected: Any) -> None:
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None, **expected)


def broken(t: Any) -> Any:
    y = (t * 2).sin()
    stator.graph_break()
    return y.cos() + 1


def sorted_by_data(x: Any) -> Any:
    rows = [row * 2 for row in x]
    best = sorted(rows, key=lambda row: row.norm().item(), reverse=True)
    return torch.stack(best).cumsum(0) + 1


def sorted_in_place(x: Any) -> Any:
    rows = [row * 2 for row in x]
    rows.sort(key=lambda row: float(row.sum()))
    return torch.stack(rows).cumsum(0) + 1


def largest(x: Any) -> Any:
    found = max([x.sum(0), x.mean(0), x.amax(0)], key=lambda head: head.norm())
    return (found * 2).tanh()


def smallest_of_some(x: Any) -> Any:
    found = min(x[0] + 1, x[1] * 2, x[2].sin(), key=lambda row: row.sum().item())
    return (found * 2).tanh()


@pytest.mark.parametrize("program", [sorted_by_data, sorted_in_place, largest, smallest_of_some])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_ranks_are_part_of_the_graph_before(program: Any, backend: str) -> None:
    same(program, expect_graphs=2, backend=backend)


def mapped(x: Any, n: int) -> Any:
    return torch.stack(list(map(broken, [x * i for i in range(n)]))) * 2 + 1


def reduced(x: Any, n: int) -> Any:
    def step(total: Any, i: int) -> Any:
        y = (total + i).sin()
        stator.graph_break()
        return y.cos() + total

    return functools.reduce(step, range(n), x * 2) + 1


def summed(x: Any, n: int) -> Any:
    return sum(map(broken, [x * i for i in range(n)]), x) * 2


@pytest.mark.parametrize(("program", "number"), [(mapped, 3), (reduced, 2), (summed, 2)])
@pytest.mark.parametrize("n", [3, 9])
def test_breaks_go_on_in_the_middle(program: Any, n: int, number: int) -> None:
    same(program, [(X, n), (X + 1, n)], expect_graphs=number)


def ties(x: Any) -> Any:
    rows = [(1, x), (0, x + 1), (1, x + 2), (0, x + 3)]

    def rank(row: Any) -> Any:
        stator.graph_break()
        return row[0]

    up, down = sorted(rows, key=rank), sorted(rows, key=rank, reverse=True)
    return up, down, max(rows, key=rank)[1] * 2, min(rows, key=rank)[1] * 2


def touched(x: Any) -> Any:
    rows = [3, 1, 2]

    def rank(row: Any) -> Any:
        stator.graph_break()
        rows.append(row)
        return row

    try:
        rows.sort(key=rank)
    except ValueError as error:
        return str(error), rows, x * 2


def raising(x: Any) -> Any:
    rows = [3, 1, "b", 2]

    def rank(row: Any) -> Any:
        stator.graph_break()
        if row == 2:
            raise KeyError(row)
        return row

    found = []
    for key in (rank, lambda row: rank(row) if row != 2 else row):
        try:
            rows.sort(key=key)
        except (KeyError, TypeError):
            found.append([line for line in traceback.format_exc().splitlines() if "File" not in line])
    return found, rows, x * 2


def empty(x: Any) -> Any:
    found = []
    for call in (lambda: max(map(broken, ())), lambda: functools.reduce(broken, ()), lambda: sum([x, "a"])):
        try:
            call()
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return found, max(map(broken, ()), default=x) + 1, list(map(broken, [x]))


def compared_one_by_one(x: Any) -> Any:
    log: list[str] = []

    class Rank:
        def __init__(self, value: Any) -> None:
            self.value = value
            log.append("made")

        def __gt__(self, other: Any) -> bool:
            log.append("compared")
            return bool(self.value > other.value)

    def rank(row: Any) -> Any:
        stator.graph_break()
        return Rank(row.sum()) if len(log) > 1 else Rank(row.sum() * 2)

    return max(x, key=rank) * 2, log


def mixed(x: Any) -> Any:
    def rank(row: Any) -> Any:
        stator.graph_break()
        return row.sum().item()

    return max([x[0], x[1], x[2]], key=rank) + 1, max(map(rank, x)), any(map(rank, x)), all(map(rank, x * 0))


@pytest.mark.parametrize("program", [ties, touched, raising, empty, compared_one_by_one, mixed])
def test_same_as_c(program: Any) -> None:
    same(program)


def in_a_closure(x: Any) -> Any:
    def each(row: Any) -> Any:
        return row * 2 if (row + x).sum() > 0 else row

    return torch.stack([each(row) for row in x]) + 1


def test_nothing_of_a_failed_capture_is_kept() -> None:
    """What was called where a capture was given up may hold tensors of that capture."""
    stator.reset()
    stator.compile(in_a_closure, backend="eager")(X)
    assert stator.stats()["frames_skipped"] == 0
    same(in_a_closure)


def test_a_state_that_does_not_fit_makes_no_generator() -> None:
    def generator(item: Any) -> Any:
        yield item

    for _ in range(100):
        with pytest.raises(ValueError, match="does not fit"):
            _frames.make_generator(generator, "name", "name", 0, (1, 2), (), None)
    assert next(_frames.make_generator(generator, "name", "name", -1, (5,), (), None)) == 5
