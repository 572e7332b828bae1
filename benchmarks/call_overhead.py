"""Call overhead: how long a hit takes when the backend's results are ready."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.engines import ENGINES, interleaved, number, ratio, ready
from tests.models.zoo import MLP, make

HEADER = ("program", "torch", "stator", "less")
SECONDS = 0.05  # per measurement


def one_tensor(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def _mlp(depth: int) -> tuple[Callable[..., Any], dict[str, Any]]:
    return MLP(depth).eval(), {"x": torch.randn(8, 32)}


PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "one tensor": lambda: (one_tensor, {"x": torch.ones(3)}),
    "10-layer MLP": partial(_mlp, 10),
    "50-layer MLP": partial(_mlp, 50),
    "tiny Llama": lambda: make("llama", train=False),
}


def per_call(call: Callable[..., Any], inputs: dict[str, Any]) -> float:
    """Microseconds of one call."""
    timer = timeit.Timer(partial(call, *inputs.values()) if len(inputs) == 1 else partial(call, **inputs))
    timer.timeit(3)  # the first call compiles
    once = max(timer.timeit(3) / 3, 1e-7)
    repeat = max(int(SECONDS / once), 1)
    return timer.timeit(repeat) / repeat * 1e6


def _fail(error: Exception) -> float:
    raise error


def measure(name: str, rounds: int) -> tuple[str, ...]:
    """One row: medians of interleaved rounds over the same compiled callables."""
    program, inputs = PROGRAMS[name]()
    measures: dict[str, Callable[[], float]] = {}
    for engine in ENGINES:
        engine.reset()
        try:
            measures[engine.name] = partial(per_call, engine.compile(program, backend=ready, fullgraph=True), inputs)
        except Exception as error:
            measures[engine.name] = partial(_fail, error)
    times = interleaved(measures, rounds)
    return name, number(times["torch"]), number(times["stator"]), ratio(times["torch"], times["stator"])


def table(rounds: int = 15) -> list[tuple[str, ...]]:
    """All programs, in microseconds."""
    with torch.no_grad():
        return [HEADER, *(measure(name, rounds) for name in PROGRAMS)]
