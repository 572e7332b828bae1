"""Ten sizes or numbers each: results as in eager, and at most two compilations.

Capturing the larger models with symbols takes seconds each, so they only run with STATOR_SWEEPS=all.
"""

from __future__ import annotations

import os

import pytest

from tests.harness import check
from tests.shapes.sweeps import graphs, numbers, sequences, vision  # noqa: F401 - cases
from tests.shapes.sweeps.registry import SWEEPS

NAMES = [name for name, case in SWEEPS.items() if case.quick or os.environ.get("STATOR_SWEEPS") == "all"]


@pytest.mark.parametrize("name", NAMES)
def test_sweep(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stator.world.world.AUDITING", False)  # doubles the time, and other tests are audited
    case = SWEEPS[name]
    report = check(
        case.program(), vary=case.all_arguments(), expect_recompiles=None, expect_graphs=None, **case.options
    )
    assert report.gained("frames_captured") <= case.compiles, report.counts
    assert report.gained("frames_skipped") == 0
