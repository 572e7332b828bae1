"""Data-dependent idioms do compiled what they do in eager; what breaks says what to do about it."""

from __future__ import annotations

from typing import Any

import pytest

from stator.report import events
from tests.harness import check
from tests.shapes.idioms import detection, generation, padding, reductions, routing  # noqa: F401 - cases
from tests.shapes.idioms.registry import IDIOMS

FRAMEWORK = ("DataDependent", "GuardOnData", "DynamicOutputShape", "Unbacked", "unbacked", "torch.fx.experimental")


def run(name: str, **options: Any) -> list[events.Event]:
    case = IDIOMS[name]
    with events.recording("break", "skip", "error", here=True) as seen:
        check(case.program(), vary=case.calls, expect_recompiles=None, expect_breaks=None, **options)
    return seen


@pytest.mark.parametrize("name", IDIOMS)
def test_idiom(name: str) -> None:
    for event in run(name, fullgraph=False):
        assert event.kind != "error", event.text
        assert event.break_id != "internal", event.reason
        assert event.break_id == "recompile-limit" or event.break_id.startswith("data-dependent"), event.reason
        assert event.remedy and not any(word in event.reason for word in FRAMEWORK), event.reason


@pytest.mark.parametrize("name", [name for name, case in IDIOMS.items() if case.traced])
def test_traced(name: str) -> None:
    run(name, fullgraph=False, backend="aot_eager", tolerance=1e-6)
