"""Start: how long a fresh process takes from `import torch` on until a small function has given its first result."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.engines import Failed, attempt, interleaved, number, ratio

HEADER = ("backend", "torch", "stator", "less", "modules torch", "stator")
ROOT = Path(__file__).parent.parent
SCRIPT = """
import sys, time
import torch
start, before = time.perf_counter(), len(sys.modules)
import {engine}

def step(x, w):
    return (x @ w + 1).relu().sum()

{engine}.compile(step, backend={backend!r}, dynamic={dynamic})(torch.ones(4, 5), torch.ones(5, 6))
print(time.perf_counter() - start, len(sys.modules) - before)
"""
ROWS: dict[str, tuple[str, bool | None]] = {
    "eager": ("eager", None),
    "eager, symbols": ("eager", True),
    "aot_eager": ("aot_eager", None),
    "aot_eager, symbols": ("aot_eager", True),
}


def start(engine: str, backend: str, dynamic: bool | None) -> tuple[float, int]:
    """Seconds and modules that it takes."""
    script = SCRIPT.format(engine=engine, backend=backend, dynamic=dynamic)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    seconds, modules = done.stdout.split()
    return float(seconds), int(modules)


def measure(name: str, rounds: int) -> tuple[str, ...]:
    """One row: medians of processes that take turns."""
    backend, dynamic = ROWS[name]
    engines = ("torch", "stator")
    times = interleaved({one: lambda one=one: start(one, backend, dynamic)[0] for one in engines}, rounds)  # type: ignore[misc]
    modules: list[float | Failed] = [attempt(partial(_modules, one, backend, dynamic)) for one in engines]
    cells = [number(times["torch"]), number(times["stator"]), ratio(times["torch"], times["stator"])]
    return name, *cells, *(number(one, 0) for one in modules)


def _modules(engine: str, backend: str, dynamic: bool | None) -> float:
    return start(engine, backend, dynamic)[1]


def table(rounds: int = 3) -> list[tuple[str, ...]]:
    """All backends, in seconds."""
    return [HEADER, *(measure(name, min(rounds, 3)) for name in ROWS)]
