"""Calls that raise, with other sizes and numbers each time: they are captured twice, as others are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.harness import check

SIZES = (3, 4, 5, 6, 7, 9, 8, 12)


def too_long(x: Any, n: int) -> Any:
    y = x.sin()
    if x.shape[0] > 2:
        raise ValueError("too long")
    return y


def with_a_number(x: Any, n: int) -> Any:
    x.add_(1)
    if n > 2:
        raise ValueError(f"{n} is too large for {x.shape[0]}", n)
    return x


class Refused(RuntimeError):
    def __init__(self, n: int) -> None:
        super().__init__(f"bad {n}")
        self.n = n


def of_a_class(x: Any, n: int) -> Any:
    raise Refused(n) from KeyError(x.shape[0])


@pytest.mark.parametrize(
    ("program", "recompiles"),
    [(too_long, 1), (with_a_number, 1), (of_a_class, 2)],  # CPython runs them: `__init__` is captured by itself
)
def test_captured_twice(program: Any, recompiles: int) -> None:
    calls = [(torch.ones(n), n + 1) for n in SIZES]
    check(program, vary=calls, fullgraph=False, expect_recompiles=recompiles)


def test_only_some_raise() -> None:
    def program(x: Any, n: int) -> Any:
        if n % 2:
            raise ValueError(f"{n} is odd")
        return x * n

    report = check(program, vary=[(torch.ones(2), n) for n in SIZES], fullgraph=False, expect_recompiles=2)
    assert report.gained("frames_captured") == 1, "the call that returns"


def test_what_a_handler_sees() -> None:
    def program(x: Any, n: int) -> Any:
        try:
            raise ValueError(f"step {n}", n)
        except ValueError as error:
            return x * error.args[1], error.args, error

    check(program, vary=[(torch.ones(2), n) for n in SIZES], expect_recompiles=1, expect_graphs=None)


def test_errors_that_read_their_arguments() -> None:
    def program(x: Any, n: int) -> Any:
        return x, OSError(n, "no"), SystemExit(n), StopIteration(n).value, KeyError(n), str(IndexError(f"{n}"))

    check(
        program, vary=[(torch.ones(2), n) for n in SIZES], fullgraph=False, expect_recompiles=None, expect_breaks=None
    )
