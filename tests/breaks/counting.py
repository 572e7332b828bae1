"""How much is compiled for some calls of a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import stator


def graphs_and_breaks(program: Any, calls: Iterable[tuple[Any, ...]]) -> tuple[int, int]:
    """How many graphs are made, and how many breaks."""
    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for args in calls:
        compiled(*args)
    after = stator.stats()
    return after["graphs"], after["graph_breaks"]
