"""Slices whose bounds from data do not lie inside of the dimension: an entry of their own after a few calls."""

from __future__ import annotations

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check


def calls(*numbers):
    return [(torch.arange(12.0).view(6, 2), torch.tensor([n, 0])) for n in numbers]


def up_to(x, a):
    return x[: a.sum().item()] * 2


def from_there(x, a):
    n = a.sum().item()
    return x[n:], x[n : n + 2], x[n:4]


def window(x, a):
    n = a.sum().item()
    return x[max(n - 2, 0) : n].sum(0), x[n - 1 : n + 1].shape


def put(x, a):
    n = a.sum().item()
    x[n : n + 2] = 0
    return x[:n]


@pytest.mark.parametrize(
    ("program", "backend"),
    [*((program, "eager") for program in (up_to, from_there, window, put)), (put, "aot_eager")],
)
def test_results(program, backend) -> None:
    numbers = (3, 8, 9, 2, 20, 6, 0)
    check(program, vary=calls(*numbers), backend=backend, fullgraph=False, expect_recompiles=None, expect_breaks=None)


def test_bounds_beyond_the_end_stay_compiled() -> None:
    graphs = []

    def backend(graph, inputs):
        graphs.append([])

        def call(*args, runs=graphs[-1]):
            result = graph.forward(*args)
            runs.append(True)
            return result

        return call

    compiled = stator.compile(up_to, backend=backend)
    with events.recording("break", "skip", "error", here=True) as seen:
        for args in calls(3, 8, 9, 7, 20, 4):
            assert torch.equal(compiled(*args), up_to(*args))
    assert not seen
    assert [len(runs) for runs in graphs] == [2, 3]  # CPython ran one call


def last_ones(x):
    twice = torch.cat([x, x * 2], 1)
    return x[:, -6:], twice[:, -6:, 0] + 1, twice[:, -9:].mean(1)


def last_ones_used(x):
    last = x[:, -6:]
    return last @ last.transpose(1, 2), (x[:, -4:] + x[:, -4:]).flatten(1)


LAST = [(torch.randn(rows, n, 8),) for rows, n in ((2, 8), (3, 8), (5, 11), (1, 9), (4, 16), (2, 3), (3, 4), (1, 6))]


@pytest.mark.parametrize("program", [last_ones, last_ones_used])
def test_windows_that_are_longer_than_some(program):
    """`x[:, -6:]` is all of a shorter tensor, as in a cache for sliding windows."""
    check(program, vary=LAST, expect_recompiles=1, expect_graphs=2, tolerance=1e-6)
    check(program, vary=LAST, expect_recompiles=None, expect_graphs=None, tolerance=1e-6, backend="aot_eager")


def test_single_elements_at_the_end_are_no_windows():
    def program(x, weight):
        return x[:, -1:] + 1, x[:, -2:] @ weight

    check(program, vary=[(torch.randn(3, 5, n), torch.ones(n, 2)) for n in (16, 16)], expect_graphs=1)
    check(program, vary=[(torch.randn(3, n, 4), torch.ones(4, 2)) for n in (16, 12, 20)], expect_recompiles=1)
