"""`torch.equal` and `torch.allclose` as values of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.harness import check

NAN = float("nan")
PAIRS = [
    (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])),
    (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001])),
    (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN])),
    (torch.tensor([0.0, 2.0]), torch.tensor([-0.0, 3.0])),
]


def given(x: Any, y: Any) -> Any:
    return torch.equal(x, y), x.equal(y * 1), torch.equal(x, x), x + y


def close(x: Any, y: Any) -> Any:
    return torch.allclose(x, y), x.allclose(y, atol=1e-9, rtol=0), torch.allclose(x, y, equal_nan=True), x * 2


def of_other_sizes(x: Any, y: Any) -> Any:
    return torch.equal(x, y[:1]), torch.equal(x, y[None]), torch.equal(x[:0], y[:0])


def in_numbers(x: Any, y: Any) -> Any:
    return [torch.equal(x, y)], x * torch.equal(x, y)


def before_a_write(x: Any, y: Any) -> Any:
    same = torch.equal(x, y)
    x.add_(1)
    return same, torch.equal(x, y)


def ints(x: Any, y: Any) -> Any:
    return torch.equal(x.long(), y.long()), torch.allclose(x.long(), y.long())


@pytest.mark.parametrize("program", [given, close, of_other_sizes, in_numbers, before_a_write, ints])
def test_values(program: Callable[..., Any]) -> None:
    check(program, vary=PAIRS)


def branch(x: Any, y: Any) -> Any:
    z = x * 2
    if torch.equal(x, y):
        return z + 1
    return z - y


def close_branch(x: Any, y: Any) -> Any:
    z = x * 2
    return (z if z.allclose(y * 2) else y), torch.equal(z, y)


def other_dtypes(x: Any, y: Any) -> Any:
    z = x + 1
    return torch.equal(z, y.double() + 1), z


def raises(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        return torch.allclose(z, y.double())
    except RuntimeError as error:
        return str(error), z


def sizes_that_do_not_match(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        return torch.allclose(z, torch.cat([y, y, y]))
    except RuntimeError as error:
        return str(error), z


@pytest.mark.parametrize("program", [branch, close_branch, other_dtypes, raises, sizes_that_do_not_match])
def test_breaks(program: Callable[..., Any]) -> None:
    check(program, vary=PAIRS, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)


def test_a_raising_branch_is_no_break() -> None:
    def program(x: Any, y: Any) -> Any:
        if not torch.equal(x, y):
            raise ValueError("they differ")
        return x + 1

    check(program, vary=PAIRS)


def test_dynamic_sizes() -> None:
    pairs = [(torch.ones(n), torch.ones(n)) for n in (2, 3, 4, 5)]
    check(given, vary=pairs, dynamic=True)
