"""Branches on tensors with one element from outside: the entry function reads them, and each way is one graph."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.harness import check

X = torch.linspace(-1.0, 2.0, 4)
LOOSE = {"expect_graphs": None, "expect_recompiles": None, "expect_breaks": None, "fullgraph": False}


class Flagged(nn.Module):
    """Initialises itself with the first call, and counts."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor(False))
        self.register_buffer("step", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.step += 1
        if not self.ready:
            self.mean.copy_(x)
            self.ready.fill_(True)
        if self.step.item() > 2:
            self.mean.lerp_(x, 0.25)
        return x - self.mean, self.step.item()


def test_a_module_that_initialises_itself():
    check(Flagged(), vary=[(X * k,) for k in range(1, 7)], expect_graphs=3, expect_recompiles=None)


def averaged(average):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    shadow = AveragedModel(model, multi_avg_fn=average)

    def step(x):
        y = model(x)
        shadow.update_parameters(model)
        return y, shadow(x)

    return step


class Scaled(nn.Module):
    """Takes its scale from the first batch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.zeros(1))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        if self.training and self.ready == 0:
            self.scale.data.copy_(x.abs().mean())
            self.ready.fill_(1)
        return x * self.scale


def test_several_that_do_are_one_graph_each_way():
    model = nn.Sequential(Scaled(), nn.Tanh(), Scaled(), Scaled())
    check(model, X, calls=3, expect_graphs=2, expect_recompiles=None)


def test_one_that_is_called_twice():
    twice = Scaled()
    check(nn.Sequential(twice, nn.Tanh(), twice), X, calls=3, **LOOSE)


@pytest.mark.parametrize("average", [None, get_ema_multi_avg_fn(0.5)], ids=["mean", "ema"])
def test_averaged_models_are_updated_in_the_graph(average):
    torch.manual_seed(0)
    inputs = [(torch.randn(5, 4),) for _ in range(4)]
    check(averaged(average), vary=inputs, expect_graphs=2, expect_recompiles=None, tolerance=1e-6)


def one_of_two(x, t):
    return x + 1 if t > 0 else x * 2


def zero_or_not(x, t):
    if t:
        x = x + 1
    return x.sin()


def whole(x, t):
    n = int(t)
    if n >= 2:
        return x * n
    return x - n if 1 > n else x


def negated(x, t):
    done = (t > 1).item()
    for _ in range(2):
        if not done:
            x = x + 1
    return x, done


@pytest.mark.parametrize("program", [one_of_two, zero_or_not, whole, negated])
def test_both_ways_have_no_break(program):
    numbers = [torch.tensor(k) for k in (1, -1, 3, 0, 2, 5)]
    check(program, vary=[(X, t) for t in numbers], expect_graphs=None, expect_recompiles=None)


def written_in_between(x, t):
    if t > 0:
        x = x + 1
    t.sub_(2)
    if t > 0:
        x = x * 3
    before = t.item()
    t.add_(7)
    if before > 0:
        x = x - 1
    return x


def test_writes_count():
    numbers = [torch.tensor(k) for k in (1, -1, 3, 0, 2, 5)]
    check(written_in_between, vary=[(X, t) for t in numbers], **LOOSE)


def until_small(t):
    n = 0
    while t > 1:
        t, n = t * 0.5, n + 1
    return t, n


def test_a_loop_is_not_one_graph_for_each_number_of_rounds():
    report = check(until_small, vary=[(torch.tensor(2.0**k),) for k in (3, 1, 0, 7, 5, 9)], **LOOSE)
    assert report.gained("graphs") <= 3


def test_larger_tensors_break():
    check(lambda x: x + 1 if x.sum() > 0 else x * 2, vary=[(X,), (-X,)], **{**LOOSE, "expect_breaks": 1})
