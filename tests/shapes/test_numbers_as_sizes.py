"""Numbers of the program that are sizes, bounds of slices or keys: two compilations, one among the numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check

NUMBERS = (3, 5, 2, 7, 1, 4, 6, 9, 8, 10)


def triangle(x: Any, n: int) -> Any:
    return torch.full((n, n), 2.0).triu(1), torch.ones(n, n).tril()


def identity(x: Any, n: int) -> Any:
    return torch.eye(n), torch.ones(n, 3).flip(0), torch.ones(n, 2).sort(0).values


def products(x: Any, n: int) -> Any:
    return torch.einsum("bid,bjd->bij", torch.ones(2, n, 3), torch.ones(2, n, 3)), x.repeat_interleave(n)


def first(x: Any, n: int) -> Any:
    return x[:n] * 2


def last(x: Any, n: int) -> Any:
    return x[-n:] * 2


@pytest.mark.parametrize("program", [triangle, identity, products, first, last])
def test_ints(program: Any) -> None:
    report = check(program, vary=[(torch.randn(6), n) for n in NUMBERS], expect_recompiles=1, expect_graphs=2)
    assert report.gained("frames_captured") == 2


def mask(x: Any) -> Any:
    n = x.shape[0]
    return x + torch.triu(torch.full((n, n), float("-inf")), diagonal=1), torch.diag(x)


def similarity(x: Any) -> Any:
    return F.cosine_similarity(x[:, None, None] + 1, x.new_ones(3, 4)[None], dim=-1)


@pytest.mark.parametrize("program", [mask, similarity])
def test_sizes(program: Any) -> None:
    check(program, vary=[(torch.randn(n),) for n in NUMBERS], expect_recompiles=1, expect_graphs=2)


def test_a_square_and_its_root() -> None:
    """What is calculated of a size must not take its place."""
    table = torch.randn(1, 8, 4, 4)

    def program(x: Any) -> Any:
        side = int(math.sqrt(x.shape[1]))
        grid = F.interpolate(table, size=(side, side), mode="bicubic")
        return x + grid.flatten(2).transpose(1, 2)

    calls = [(torch.randn(1, n * n, 8),) for n in (3, 5, 2, 7, 6, 9)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)


def test_rows_of_what_is_as_long_as_the_longest() -> None:
    def program(rows: Any) -> Any:
        out = torch.zeros(len(rows), max(row.shape[0] for row in rows), 3)
        for i, row in enumerate(rows):
            out[i, : row.shape[0]] = row
        return out

    calls = [([torch.randn(k, 3) for k in (n, n + 1, 2)],) for n in NUMBERS]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)


def test_overlapping_writes_between_numbers() -> None:
    """Where parts of one tensor are read and written, that they lie apart holds for these numbers only."""

    def program(x: Any, n: int) -> Any:
        x = x.clone()
        x[:n] = x[4 : 4 + n]
        return x

    calls = [(torch.arange(12.0), n) for n in (2, 3, 4, 2)]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)


def averages() -> Any:
    sums: Any = defaultdict(float)

    def program(x: Any, n: int) -> Any:
        sums["n"] += n
        sums["count"] += 1
        return x * (sums["n"] / sums["count"])

    return program


def counts() -> Any:
    seen: Any = Counter()

    def program(x: Any, n: int) -> Any:
        seen["n"] += n
        return x * seen["n"]

    return program


def log() -> Any:
    losses: Any = {"loss": [], "n": []}

    def program(x: Any, n: int) -> Any:
        losses["loss"].append(x.sum())
        losses["n"].append(n)
        return x * n

    return program


@pytest.mark.parametrize("make", [averages, counts, log])
def test_what_a_program_counts_with(make: Any) -> None:
    check(make(), vary=[(torch.ones(3), n) for n in NUMBERS], expect_recompiles=1, expect_graphs=2)


def test_how_many_keys_there_are() -> None:
    seen: Any = {}

    def program(x: Any, n: int) -> Any:
        seen[n] = x.sum()
        return x * 2, len(seen)

    calls = [(torch.ones(3), n) for n in (3, 5, 2, 5, 7, 1, 3)]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=4) == 0, report.counts


def attention(x: Any, n: int) -> Any:
    keys = torch.ones(2, n, 4) * x[0]
    return (keys @ keys.transpose(1, 2)).softmax(-1) @ keys, torch.cat([x, x.new_zeros(n)])


@pytest.mark.parametrize("program", [attention, triangle, products])
def test_ints_with_a_backend_that_traces(program: Any) -> None:
    calls = [(torch.randn(6), n) for n in NUMBERS]
    check(program, vary=calls, backend="aot_eager", tolerance=1e-5, expect_recompiles=1, expect_graphs=2)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x.unfold(-1, n, 1).mean(-1) * 2,
        lambda x, n: F.avg_pool1d(x * 2, n) + 1,
        lambda x, n: F.max_pool1d(x, 3, stride=n) * 2,
        lambda x, n: torch.logspace(0, 1, n).sum() * x,
    ],
    ids=["unfold", "average", "stride", "logspace"],
)
def test_compilers_make_no_constants_of_numbers_that_vary(program):
    calls = [(torch.randn(2, 3, 24), n) for n in (3, 5, 4, 7, 9, 6, 8, 12, 10, 11)]
    report = check(
        program, vary=calls, backend="aot_eager", fullgraph=False, expect_recompiles=None, expect_breaks=None
    )
    assert report.gained("frames_captured", first=3) == 0, report.counts
    assert report.gained("frames_skipped") == 0
