"""Capture time: how long the first call takes when the backend does nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.engines import ENGINES, Engine, Failed, attempt, interleaved, no_op, number, ratio
from tests.models.zoo import ZOO, make

HEADER = ("model", "torch first", "stator first", "less", "torch again", "stator again", "less")


def capture(engine: Engine, model: Callable[..., Any], inputs: dict[str, Any], dynamic: bool | None = None) -> float:
    """Milliseconds from a fresh `compile` to the result of the first call."""
    engine.reset()
    gc.collect()  # what one engine leaves behind is not to be cleared away while the other one is measured
    start = time.perf_counter()
    engine.compile(model, backend=no_op, fullgraph=True, dynamic=dynamic)(**inputs)
    return (time.perf_counter() - start) * 1e3


def _warm_up(dynamic: bool | None) -> None:
    """Imports and one-time set-up of either engine are not capture time."""
    for engine in ENGINES:
        attempt(lambda: capture(engine, lambda x: torch.sin(x) + 1, {"x": torch.ones(3)}, dynamic))


def measure(name: str, rounds: int, dynamic: bool | None) -> tuple[str, ...]:
    """One row: the first capture in this process, then the median of captures after a reset."""
    model, inputs = make(name, train=False)
    model(**inputs)
    first: dict[str, float | Failed] = {
        engine.name: attempt(partial(capture, engine, model, inputs, dynamic)) for engine in ENGINES
    }
    again = interleaved({engine.name: partial(capture, engine, model, inputs, dynamic) for engine in ENGINES}, rounds)
    cells: list[str] = [name]
    for times in (first, again):
        cells += [number(times["torch"], 1), number(times["stator"], 1), ratio(times["torch"], times["stator"])]
    return tuple(cells)


def table(rounds: int = 7, dynamic: bool | None = None) -> list[tuple[str, ...]]:
    """All models, in milliseconds."""
    _warm_up(dynamic)
    return [HEADER, *(measure(name, rounds, dynamic) for name in ZOO)]


def symbolic_table(rounds: int = 5) -> list[tuple[str, ...]]:
    """The same with `dynamic=True`: every size of every input is a symbol."""
    return table(min(rounds, 5), dynamic=True)
