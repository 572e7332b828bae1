"""Calls that raise, with other sizes and numbers each time: they are captured twice, as others are."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from stator.report.events import recording
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


def statements(*texts: str) -> list[Any]:
    """Programs that need nothing of a calculation but whether it raises."""
    source = "def program(x, i):\n    try:\n        y = {}\n    except ArithmeticError:\n        return x - 1\n"
    source += "    except ValueError:\n        return x - 2\n    return x if isinstance(y, (float, tuple)) else x + 1\n"
    made = []
    for text in texts:
        space: dict[str, Any] = {"math": math}
        exec(source.format(text), space)
        made.append(pytest.param(space["program"], id=text))
    return made


CALLS = [(torch.ones(rows), i) for i, rows in ((5, 4), (6, 4), (5, 5), (3, 4), (4, 4), (3, 6), (9, 3), (2, 5))]


@pytest.mark.parametrize(
    "program",
    statements(
        "1 / (i - 3)", "1 / (i % 2)", "2.0 * i / (i - 3)", "1.5 // (i - 3)", "1.5 % (i - 3)", "(i - 3) ** -1",
        "(i - 4) ** 0.5", "(i * 0.5 - 2.0) ** 0.5", "(i - 3.0) ** -1", "divmod(1.0, i * 0.5 - 1.5)",
        "i / (x.shape[0] - 3)", "math.sqrt(i - 4)", "math.log(i - 3)", "math.exp(i * 100)", "math.fmod(i, i - 3)",
        "math.acos(i / 6)", "math.factorial(i - 4)", "math.isqrt(i - 4)", "divmod(i, i - 3)",
        "(1 / (i - 3), 1 / (i - 4))",
    ),
)  # fmt: skip
def test_what_nothing_needs_raises(program: Any) -> None:
    with recording("error") as mistakes:
        check(program, vary=CALLS, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert not mistakes


def test_a_failing_calculation_in_a_scope_that_swallows() -> None:
    class Swallow:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def __enter__(self) -> Any:
            return self

        def __exit__(self, kind: Any, *rest: Any) -> bool:
            self.seen.append(str(kind))
            return True

    scope = Swallow()

    def program(x: Any, i: int) -> Any:
        with scope:
            x = x + 1
            _ = 1 / (i % 2)
            x = x * 5
        return x

    check(program, vary=[(torch.ones(2), i) for i in (1, 3, 5, 4, 7)], fullgraph=False, expect_recompiles=None)


@pytest.mark.parametrize("divisor", ["i - 3", "x.shape[0] - 4", "i * 0.5 - 1.5", "0 if i == 3 else 2"])
def test_data_divided_by_nothing(divisor: str) -> None:
    """The error comes where the program divides, not where the number is known at last."""
    space: dict[str, Any] = {}
    source = f"def program(x, i):\n    try:\n        y = x.sum().item() / ({divisor})\n"
    exec(source + "    except ZeroDivisionError as error:\n        y = str(error)\n    return x, y\n", space)
    check(space["program"], vary=CALLS, expect_recompiles=None, expect_graphs=None)
