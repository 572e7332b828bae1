"""How many graphs are compiled for a program that is called with ten sizes or numbers, without any limit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo.config
from torch import nn

import stator
from benchmarks.engines import Failed, attempt, number
from tests.shapes.sweeps import graphs, numbers, sequences, vision  # noqa: F401 - registers all programs
from tests.shapes.sweeps.registry import SWEEPS, Sweep

HEADER = ("program", "calls", "torch", "stator")
LIMIT = 64  # of compilations: none of these programs comes to it

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "optimizer: SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "optimizer: AdamW": torch.optim.AdamW,
    "optimizer: RMSprop": torch.optim.RMSprop,
}


class Counting:
    """A backend that compiles nothing and counts graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


def compiled_by_torch(program: Any, backend: Counting) -> Any:
    torch.compiler.reset()
    return torch.compile(program, backend=backend)


def compiled_by_stator(program: Any, backend: Counting) -> Any:
    stator.reset()
    return stator.compile(program, backend=backend, options={"recompile_limit": LIMIT})


@contextmanager
def unlimited() -> Iterator[None]:
    """torch compiles as often as the program demands, instead of leaving it to CPython after eight times."""
    config: Any = torch._dynamo.config
    names = [name for name in ("recompile_limit", "accumulated_recompile_limit") if hasattr(config, name)]
    before = {name: getattr(config, name) for name in names}
    try:
        for name in names:
            setattr(config, name, LIMIT)
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def swept(case: Sweep, compiled: Any) -> Callable[[Counting], None]:
    """Calls a program with all of its arguments."""

    def run(backend: Counting) -> None:
        call = compiled(case.program(), backend)
        for arguments in case.all_arguments():
            call(*arguments)

    return run


def stepped(make: Callable[..., torch.optim.Optimizer], compiled: Any) -> Callable[[Counting], None]:
    """Steps of an optimizer, each with another rate."""

    def run(backend: Counting) -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = make(model.parameters())
        step = compiled(lambda: optimizer.step(), backend)
        for done in range(10):
            model(torch.randn(3, 4)).sum().backward()
            optimizer.param_groups[0]["lr"] = 0.1 / (done + 1)
            step()

    return run


def counted(run: Callable[[Counting], None]) -> float | Failed:
    """Graphs compiled in all calls."""

    def count() -> float:
        backend = Counting()
        with warnings.catch_warnings(), unlimited():
            warnings.simplefilter("ignore")
            run(backend)
        return backend.graphs

    return attempt(count)


def table(rounds: int) -> list[tuple[str, ...]]:
    """One row per program: graphs of either. Counts need no rounds."""
    rows: list[tuple[str, ...]] = [HEADER]
    engines = (compiled_by_torch, compiled_by_stator)
    for name, case in SWEEPS.items():
        counts = (number(counted(swept(case, engine)), 0) for engine in engines)
        rows.append((name.replace("_", " ").replace(".", ": "), str(case.calls), *counts))
    for name, make in OPTIMIZERS.items():
        rows.append((name, "10", *(number(counted(stepped(make, engine)), 0) for engine in engines)))
    return rows
