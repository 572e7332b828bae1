"""A number that varies says in which round of a loop something happens: the rounds are compiled once."""

import pytest
import torch
from torch import nn

import stator
from tests.shapes.places import most_per_place

NUMBERS = (2, 3, 4, 6, 5, 7, 9)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(10)])


class StopsEarly(Layers):
    def forward(self, x, depth):
        for i, layer in enumerate(self.layers):
            if i >= depth:
                break
            x = layer(x).relu()
        return x * 2


class LeavesOneOut(Layers):
    def forward(self, x, skipped):
        for i, layer in enumerate(self.layers):
            if i == skipped:
                continue
            x = layer(x).relu()
        return x * 2


class GivesOne(Layers):
    def forward(self, x, wanted):
        for i, layer in enumerate(self.layers):
            x = layer(x).relu()
            if i == wanted:
                return x * 2
        return x


class Counts(Layers):
    def forward(self, x, depth):
        for round_ in range(10):
            if round_ > depth:
                break
            x = x.sin() + round_
        return x


@pytest.mark.parametrize("kind", [StopsEarly, LeavesOneOut, GivesOne, Counts])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_rounds_are_compiled_once(kind, backend):
    assert most_per_place(kind, [(torch.randn(2, 4), number) for number in NUMBERS], backend=backend) == 2


def test_one_number_is_one_graph():
    model = StopsEarly()
    compiled = stator.compile(model, backend="eager")
    stator.reset()
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2, 4), 5), model(torch.ones(2, 4), 5))
    assert (stator.stats()["graphs"], stator.stats()["graph_breaks"]) == (1, 0)


def test_loops_without_tensors_are_unrolled():
    """Milestones: what they lead to is a number."""

    def program(x, step):
        passed = 0
        for milestone in (3, 5, 8, 13):
            if step >= milestone:
                passed += 1
        return x * 0.5**passed

    compiled = stator.compile(program, backend="eager")
    stator.reset()
    for step in range(1, 20):
        assert torch.equal(compiled(torch.ones(2), step), program(torch.ones(2), step))
    assert stator.stats()["graph_breaks"] == 0
