"""Dropout that drops all or nothing: what comes out, whose memory it is, and what is drawn."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check

NOTHING = {
    "layer": lambda x: F.dropout(x, 1.0, False),
    "by name": lambda x: F.dropout(input=x, p=0.5, training=False),
    "in place": lambda x: F.dropout(x, 0.0, True, True),
    "operation": lambda x: torch.dropout(x, 0.5, train=False),
    "operation in place": lambda x: torch.dropout_(x, 0.5, False),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_dropped_is_the_input(name):
    def program(x):
        return NOTHING[name](x), x + 1

    check(program, vary=[torch.ones(n, 4) for n in (3, 4, 5)], backend="aot_eager", expect_recompiles=1)


ALL = {
    "layer": lambda x: F.dropout(x, 1.0),
    "in place": lambda x: F.dropout(x * 2, 1.0, True, True),
    "operation": lambda x: torch.dropout(x, p=1, train=True),
    "without elements": lambda x: F.dropout(x[:0], 1.0),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nothing_left_draws_nothing(name, backend):
    def program(x):
        return ALL[name](x), torch.rand(2)

    x = torch.tensor([[1.0, -2.0], [float("nan"), float("inf")]], requires_grad=True)
    check(program, x, backend=backend, backward=True)


def test_no_such_dropout():
    def program(x):
        tried = []
        for call in (lambda: F.dropout(x, 1.5, False), lambda: torch.dropout(x, 0.5, training=False)):
            try:
                call()
            except (ValueError, TypeError) as error:
                tried.append(type(error))
        return tried, x + 1

    check(program, torch.ones(3), fullgraph=False, expect_breaks=None, expect_graphs=None, expect_recompiles=None)
