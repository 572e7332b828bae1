"""Settings that all tests share: audit mode, one torch thread, nothing left over from test to test."""

import os
from collections.abc import Iterator

os.environ.setdefault("STATOR_AUDIT", "1")  # before stator is imported

import pytest
import torch

import stator
from stator.world import audit

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Every capture is audited: what the imports made is looked at once."""
    audit.settle()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts with nothing compiled, known random numbers and torch's default state."""
    torch.manual_seed(0)
    stator.reset()
    yield
    stator.reset()
