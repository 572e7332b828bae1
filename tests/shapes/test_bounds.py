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
