"""What tests of breaks share."""

from collections.abc import Iterator

import pytest

from stator.eval import forced


@pytest.fixture
def unforced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No breaks are forced afterwards; audits, which take their time, are off meanwhile."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)
    yield
    forced.force(None)
