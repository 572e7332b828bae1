"""Capture time against the number of symbols: programs over N tensors, each with a size of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.engines import ENGINES, Engine, Failed, attempt, interleaved, no_op, number, ratio
from stator.report.events import recording

HEADER = ("program", "symbols", "torch", "per symbol", "stator", "per symbol", "guards per symbol", "less")
COUNTS = (50, 200, 800)
TORCH_COUNTS = (50, 200)  # more would take minutes


def joined(xs: list[torch.Tensor]) -> Any:
    """All sizes in one expression, and each as a number."""
    rows = 0
    for x in xs:
        rows = rows + x.shape[0]
    return torch.cat(xs).view(rows) * 2, [x.sum() / x.shape[0] for x in xs]


def branching(xs: list[torch.Tensor]) -> Any:
    """A branch on each size: one guard for each."""
    return [x * 2 if x.shape[0] > 3 else x + 1 for x in xs]


def paired(xs: list[torch.Tensor]) -> Any:
    """Sizes that must agree in pairs."""
    return [a + b for a, b in zip(xs[::2], xs[1::2], strict=True)]


PROGRAMS: dict[str, Callable[[list[torch.Tensor]], Any]] = {
    "joined": joined,
    "branching": branching,
    "paired": paired,
}


def capture(engine: Engine, program: Callable[..., Any], xs: list[torch.Tensor]) -> float:
    """Milliseconds of CPU time of the first call."""
    engine.reset()
    start = time.process_time()
    engine.compile(program, backend=no_op, fullgraph=True, dynamic=True)(xs)
    return (time.process_time() - start) * 1e3


def guards(program: Callable[..., Any], xs: list[torch.Tensor]) -> int:
    """How many checks the entry has."""
    with recording("guards") as seen:
        capture(ENGINES[1], program, xs)
    return int(seen[-1].count)


def measure(name: str, count: int, rounds: int) -> tuple[str, ...]:
    """One row."""
    program = PROGRAMS[name]
    xs = [torch.ones(5 + i // 2) for i in range(count)]
    engines = [engine for engine in ENGINES if engine.name == "stator" or count in TORCH_COUNTS]
    times: dict[str, float | Failed] = {"torch": Failed("–")}
    times |= interleaved({engine.name: partial(capture, engine, program, xs) for engine in engines}, rounds)
    cells = [name, str(count)]
    for engine in ("torch", "stator"):
        taken = times[engine]
        cells += [number(taken, 0), "–" if isinstance(taken, Failed) else f"{taken / count:.2f}"]
    return (*cells, f"{guards(program, xs) / count:.1f}", ratio(times["torch"], times["stator"]))


def table(rounds: int = 3) -> list[tuple[str, ...]]:
    """All programs and counts, in milliseconds of CPU time."""
    for engine in ENGINES:
        attempt(lambda: capture(engine, joined, [torch.ones(5), torch.ones(6)]))
    return [HEADER, *(measure(name, count, min(rounds, 3)) for name in PROGRAMS for count in COUNTS)]
