"""Data-dependent idioms do compiled what they do in eager; what breaks says what to do about it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stator.report import events
from tests.harness import Report, check
from tests.shapes.idioms import (  # noqa: F401 - cases
    caches,
    decoding,
    detection,
    experts,
    generation,
    networks,
    padding,
    pictures,
    reductions,
    routing,
    selections,
    serving,
    speech,
)
from tests.shapes.idioms.registry import IDIOMS

FRAMEWORK = ("DataDependent", "GuardOnData", "DynamicOutputShape", "data-dependent expression", "frame #")


def run(name: str, **options: Any) -> tuple[Report, list[events.Event]]:
    case = IDIOMS[name]
    with events.recording("break", "skip", "error", here=True) as seen:
        report = check(
            case.program(), vary=case.calls, fullgraph=False, expect_recompiles=None, expect_breaks=None, **options
        )
    for event in seen:
        assert event.kind != "error", event.text
        assert event.break_id != "internal" and event.remedy, event.reason
        assert not any(word in event.reason for word in FRAMEWORK), event.reason
    return report, seen


@pytest.mark.parametrize("name", IDIOMS)
def test_idiom(name: str) -> None:
    failed: list[Exception] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        """Eager; what a graph assumed and does not hold is counted, as CPython runs the call then."""

        def call(*args: Any) -> Any:
            try:
                return graph.forward(*args)
            except Exception as error:
                failed.append(error)
                raise

        return call

    report, seen = run(name, backend=backend)
    case = IDIOMS[name]
    if case.whole:
        assert not seen, seen[0].reason
        assert len(failed) <= case.reruns, failed
    else:
        assert any(event.break_id in case.breaks for event in seen), "captured whole now: say so in the table"


@pytest.mark.parametrize("name", [name for name, case in IDIOMS.items() if case.traced])
def test_traced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stator.world.world.AUDITING", False)  # takes time, and the test above is audited
    run(name, backend="aot_eager", tolerance=1e-6)


def test_number_of_idioms() -> None:
    whole = sum(case.whole for case in IDIOMS.values())
    assert len(IDIOMS) >= 128 and whole >= 117
