"""Settings that all tests share: audit mode, one torch thread, nothing left over from test to test."""

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("STATOR_AUDIT", "1")  # before stator is imported

import pytest
import torch

import stator
from stator.world import audit

torch.set_num_threads(1)


GROWN = 30_000  # objects that are worth settling


def settle() -> None:
    """Every capture is audited, which takes as long as there are objects: what has come to stay is looked at once."""
    if len(gc.get_objects()) >= GROWN:
        gc.collect()
        audit.settle()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts with nothing compiled, known random numbers and torch's default state."""
    torch.manual_seed(0)
    stator.reset()
    settle()
    yield
    stator.reset()
