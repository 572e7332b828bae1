"""Break-everywhere: a break forced at each instruction in turn, then at all of them, changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from stator.eval import forced
from tests.breaks.programs import PROGRAMS
from tests.harness import check

pytestmark = pytest.mark.usefixtures("unaudited")
NAMED = [pytest.param(fn, args, id=fn.__name__) for fn, args in PROGRAMS]
MOST = 150


def run(fn: Any, args: Any) -> Any:
    return check(fn, *args, calls=2, fullgraph=False, expect_breaks=None, expect_recompiles=None)


@pytest.mark.parametrize(("fn", "args"), NAMED)
def test_unbroken(fn: Any, args: Any) -> None:
    run(fn, args)


@pytest.mark.parametrize(("fn", "args"), NAMED)
def test_each_instruction(fn: Any, args: Any) -> None:
    for number in range(1, MOST):
        forced.force(str(number))
        stator.reset()
        try:
            report = run(fn, args)
        except AssertionError as error:
            raise AssertionError(f"forced break {number}: {error}") from error.__cause__
        if not report.gained("graph_breaks") and not report.gained("frames_skipped"):
            assert number > 2
            return


@pytest.mark.parametrize(("fn", "args"), NAMED)
def test_all_instructions(fn: Any, args: Any) -> None:
    forced.force("all")
    report = run(fn, args)
    assert report.gained("graph_breaks") > 2
