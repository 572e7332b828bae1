"""Sizes in containers stay symbols: making the container is no use of the number."""

from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

import stator

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
