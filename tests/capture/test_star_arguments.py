"""`f(*values)` of objects whose iteration is Python code of the program."""

import pytest
import torch

import stator
from tests.harness import check


class Values:
    def __init__(self, scale):
        self.scale = scale
        self.asked = 0

    def __iter__(self):
        self.asked += 1
        yield self.scale
        yield 2


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])

    def forward(self, x):
        return torch.nn.Sequential(*self.layers)(x)


def scaled(x, values):
    return torch.mul(x, max(*values)) + values.asked


def test_iteration_is_captured():
    compiled = stator.compile(scaled, fullgraph=True, backend="eager")
    values, twin = Values(3), Values(3)
    for scale in (3, 3, 5, 1):
        values.scale = twin.scale = scale
        assert torch.equal(compiled(torch.ones(2), values), scaled(torch.ones(2), twin))
        assert values.asked == twin.asked


def test_layers_put_together_anew():
    check(Layers(), torch.randn(2, 3), expect_graphs=1)


def test_what_cannot_be_iterated():
    def program(x):
        try:
            return torch.add(*x.dim())
        except TypeError as error:
            return str(error)

    assert stator.compile(program, fullgraph=True, backend="eager")(torch.ones(2)) == program(torch.ones(2))
    with pytest.raises(TypeError, match="argument after"):
        stator.compile(lambda n: max(*n), fullgraph=True, backend="eager")(3)
