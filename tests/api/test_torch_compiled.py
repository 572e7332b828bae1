"""What `torch.compile` returned, called by a captured program: captured along with it."""

import functools

import pytest
import torch
from torch import nn

import stator

ONE = torch.ones(3)


@torch.compile(backend="eager")
def double(x):
    return x * 2


@torch.compile(backend="eager")
def with_break(x, by=1):
    y = x + by
    stator.graph_break()
    return y.sin()


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.whole = torch.compile(nn.Linear(3, 3), backend="eager")
        self.inner = nn.Linear(3, 3)
        self.inner.compile(backend="eager")

    @torch.compile(backend="eager")
    def method(self, x, *, by):
        return self.inner(x) + by

    def forward(self, x):
        return double(self.method(self.whole(x), by=1.0))


def by_native(x):
    return sum(map(double, [x, x + 1]))


def by_partial(x):
    return functools.partial(double)(x) + 1


def graphs_of(program, x=ONE, **options):
    """Compiled and called twice, the results being those of the functions as they were written."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = stator.compile(program, backend=backend, **options)
    with torch.compiler.set_stance("force_eager"):
        expected = program(x)
    assert all(torch.equal(compiled(x), expected) for _ in range(2))
    return len(graphs)


@pytest.mark.parametrize(
    "program", [double, Parts(), by_native, by_partial], ids=["function", "module", "map", "partial"]
)
def test_one_graph(program):
    assert graphs_of(program, fullgraph=True) == 1


def test_breaks_go_on_inside():
    assert graphs_of(lambda x: with_break(x * 2, by=3) + 1) == 2


def test_another_one_is_another_program():
    names = {"step": double}
    compiled = stator.compile(lambda x: names["step"](x), backend="eager")
    assert compiled(ONE)[0].item() == 2
    names["step"] = torch.compile(lambda x: x + 2, backend="eager")
    assert compiled(ONE)[0].item() == 3
    names["step"] = lambda x: x - 1
    assert compiled(ONE)[0].item() == 0


def test_a_function_around_it_runs():
    @functools.wraps(double)
    def around(x):
        return double(x) + 1

    assert graphs_of(lambda x: around(x), fullgraph=True) == 1
