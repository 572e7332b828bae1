"""Sizes in containers stay symbols: making the container is no use of the number."""

from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

import stator
from tests.harness import check

Pair = namedtuple("Pair", "rows columns")


class Sizes(NamedTuple):
    rows: int
    columns: int = 3


class Own(tuple):
    def __new__(cls, rows, columns):
        return tuple.__new__(cls, (rows, columns))


@dataclass(frozen=True)
class Shape:
    rows: int
    columns: int

    def __iter__(self):
        return iter((self.rows, self.columns))


@pytest.mark.parametrize(
    "kind", [Pair, Sizes, Own, Shape, lambda *sizes: list(sizes), lambda *sizes: dict(a=sizes)["a"]]
)
def test_two_compilations(kind):
    def program(x):
        rows, columns = kind(x.shape[0], x.shape[1])
        return torch.zeros(rows, columns) + x, rows * 2

    stator.reset()
    compiled = stator.compile(program, fullgraph=True, backend="eager")
    for size in (4, 5, 6, 9):
        x = torch.randn(size, 3)
        result, number = compiled(x)
        assert torch.equal(result, x) and number == 2 * size and type(number) is int
    assert stator.stats()["graphs"] == 2


@pytest.mark.parametrize("wrap", [lambda size: size, lambda size: [{"size": size}]])
def test_sizes_from_outside(wrap):
    """The numbers of a torch.Size vary, all of them once one does."""

    def program(x, given):
        size = given if isinstance(given, torch.Size) else given[0]["size"]
        assert type(size) is torch.Size
        return x.reshape(size) + size[0], size, size.numel(), (*size, 2)

    calls = [(torch.randn(n * m * 3), wrap(torch.Size((n, m, 3)))) for n, m in ((2, 4), (5, 4), (5, 6), (7, 3))]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=2)
    assert report.gained("frames_captured") == 2


def test_a_size_across_a_break():
    """Each part of the frame is compiled twice."""

    def program(x):
        size = x.size()
        scale = {1: 2}[int((x == x).any())]  # a break
        return torch.zeros(size) + x.reshape(-1).view(size) * scale

    calls = [(torch.randn(n, m),) for n, m in ((2, 4), (5, 4), (5, 6), (7, 3))]
    report = check(program, vary=calls, expect_recompiles=2, expect_graphs=None, expect_breaks=None, fullgraph=False)
    assert report.gained("frames_captured") == 4


def test_a_size_is_the_same_object():
    def program(x, sizes):
        return sizes[0] is sizes[1], sizes[0] == (2, 3), sizes[0], x + sizes[1][0]

    calls = [(torch.ones(n), [torch.Size((n, 3))] * 2) for n in (2, 4, 5)]
    calls.append((torch.ones(4), [torch.Size((4, 3)), torch.Size((4, 3))]))
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None)
