"""What tests of breaks share."""

from collections.abc import Iterator

import pytest

from stator.eval import forced


@pytest.fixture(autouse=True)
def forced_no_longer() -> Iterator[None]:
    """No breaks are forced afterwards."""
    yield
    forced.force(None)


@pytest.fixture
def unaudited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits, which take their time, are off where breaks are forced at every place."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)
