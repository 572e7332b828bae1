"""Graphs that write to inputs and hold only for some data: where they do not, the program runs as if they never had."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator
from stator.report.events import recording
from tests.harness import check

tensor = torch.tensor


def any_backend(graph: Any, inputs: Any) -> Any:
    return graph.forward


def put(cache, start, new):
    at = start.item()
    cache[:, at : at + new.shape[1]] = new
    return cache.sum()


def behind_a_write(cache, x, start):
    cache.add_(1)
    return x[: cache.sum().int().item()] + start


def behind_a_product(out, x, w):
    y = x @ w
    out.mul_(2)
    return y[: (y.sum(1) > 0).sum().item() + 2]


ROWS = torch.tensor([[1.0, -2.0], [-1.0, 0.5], [-3.0, 1.0], [0.5, -1.0]])
PROGRAMS = {
    put: [(torch.zeros(2, 8), tensor(at), torch.ones(2, 3)) for at in (1, 2, -4, 5)],
    behind_a_write: [(torch.zeros(2) + k, torch.arange(20.0), tensor(1)) for k in (1.0, 2.0, -5.0, 50.0)],
    behind_a_product: [(torch.ones(3), ROWS + k, torch.eye(2)) for k in (-1.0, 0.0, 3.0)],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", any_backend])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_written_where_the_graph_does_not_hold(program, backend) -> None:
    compiled = stator.compile(program, backend=backend)
    with recording("break", "skip", "error") as seen:
        for args in PROGRAMS[program]:
            mine, theirs = ([arg.clone() for arg in args] for _ in range(2))
            assert torch.equal(compiled(*mine), program(*theirs))
            assert all(map(torch.equal, mine, theirs))
    assert not seen


def test_errors_of_the_program_come_out_as_they_are() -> None:
    compiled = stator.compile(put, backend=any_backend)
    compiled(torch.zeros(2, 8), tensor(1), torch.ones(2, 3))
    for function in (put, compiled):
        with pytest.raises(RuntimeError, match="size"):
            function(torch.zeros(2, 8), tensor(7), torch.ones(2, 3))


def test_bounds_in_tensors_with_one_element():
    """`torch.tensor([3])` bounds a slice as `torch.tensor(3)` does; as an index it is one of its own."""

    def program(cache, new, start):
        cache[:, start : start + new.shape[1]] = new
        kept = cache[:, : start + new.shape[1]]
        return kept.sum(1) * kept.shape[1], cache[:, start], cache[0][start:]

    calls = [(torch.zeros(2, 8), torch.ones(2, 3), torch.tensor(start)) for start in ([0], [2], [4], [[5]])]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)
