"""Threads that capture take turns: torch's tracers and flags, and what backends change, are of the process.

Nobody waits for ever who can do without a capture: the program runs in CPython then.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from operator import call

from stator import forking

PATIENCE = 60.0  # seconds; then whoever captures may be waiting for this very thread, in a backend or a signal handler
TURN = forking.lock()
CAPTURING: list[bool] = []  # not empty: somebody captures; only a hint, as interruptions may leave it as it is


def turn_comes() -> bool:
    """Wait for the turn, but do not take it; whether it came."""
    try:  # C makes both calls: no interruption can come between them
        deque(map(call, (partial(TURN.acquire, True, PATIENCE), TURN.release)), 0)
    except RuntimeError:  # it released what it did not get
        return False
    return True


__all__ = ["CAPTURING", "PATIENCE", "TURN", "turn_comes"]
