"""Counts what a capture costs, where time would be too noisy."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

from sympy.core.cache import clear_cache

import stator


def calls(program: Callable[..., Any], *args: Any, **options: Any) -> int:
    """Calls of functions to capture a program whole."""
    stator.reset()
    clear_cache()  # of sympy, which knows the symbols of other captures
    compiled, profile = stator.compile(program, backend="eager", fullgraph=True, **options), cProfile.Profile()
    profile.runcall(compiled, *args)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
