"""A few random programs of all kinds of statements, with breaks where they must be and with forced ones."""

from __future__ import annotations

import pytest

from tests.breaks.generated import difference, observed
from tests.breaks.generating import source


@pytest.fixture(autouse=True)
def unaudited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stator.world.world.AUDITING", None)


@pytest.mark.parametrize(("seed", "setting"), [(seed, None) for seed in range(8)] + [(20, "20"), (21, "9")])
def test_same(seed: int, setting: str | None) -> None:
    assert difference(source(seed), setting) is None


def test_differences_are_seen() -> None:
    """What is compared is more than the result."""
    text = "def main(*args):\n    args[4].rest.append({})\n    note(args[2])\n    return args[0]\n"
    assert observed(text.format(1), None) == observed(text.format(1), None) != observed(text.format(2), None)
