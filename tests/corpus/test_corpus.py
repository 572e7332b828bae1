"""Every program of the corpus does compiled what it does in eager, also on later calls with other inputs."""

from __future__ import annotations

import pytest

from tests.corpus import (  # noqa: F401 - cases
    configured,
    effects,
    generative,
    graphs,
    loops,
    numeric,
    reduced,
    research,
    sequences,
    styles,
    training,
    vision,
)
from tests.corpus.registry import CASES
from tests.harness import check


@pytest.mark.parametrize("name", CASES)
def test_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not name.startswith("reduced."):
        monkeypatch.setattr("stator.world.world.AUDITING", False)  # doubles the time, and other tests are audited
    case = CASES[name]
    check(
        case.program(),
        vary=case.calls,
        fullgraph=False,
        expect_breaks=None,
        expect_recompiles=None,
        **case.options,
    )
