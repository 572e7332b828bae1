"""Settings that all tests share: audit mode, one torch thread, nothing left over from test to test."""

import gc
import os
import sys
from collections.abc import Iterator

os.environ.setdefault("STATOR_AUDIT", "1")  # before stator is imported

import pytest
import torch

import stator
from stator.world import audit

torch.set_num_threads(1)


MODULES = 100  # new ones that are worth looking at what they hold
seen = 0  # modules that had been loaded when audits last looked


def settle() -> None:
    """Every capture is audited: what the imports made is looked at once."""
    global seen
    if len(sys.modules) - seen >= MODULES:
        gc.collect()
        audit.settle()
        seen = len(sys.modules)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts with nothing compiled, known random numbers and torch's default state."""
    torch.manual_seed(0)
    stator.reset()
    settle()
    yield
    stator.reset()
