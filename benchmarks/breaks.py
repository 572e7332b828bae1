"""Calls with breaks: what a hit costs when the backend's results are ready, and into how many graphs programs fall."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch._dynamo.config

from benchmarks.break_programs import PROGRAMS, aside
from benchmarks.call_overhead import per_call
from benchmarks.engines import ENGINES, Engine, Failed, attempt, interleaved, number, ratio, ready

HEADER = ("program", "asides", "torch", "stator", "less", "graphs torch", "stator", "runs torch", "stator")
CALLS = 3  # that come before anything is counted: by then nothing is compiled any more


class Counting:
    """The backend with ready results, which counts graphs and their runs."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs += 1
        run = ready(graph, inputs)

        def call(*args: Any) -> Any:
            self.runs += 1
            return run(*args)

        return call


@contextmanager
def nested_breaks() -> Iterator[None]:
    """torch keeps what it inlined around a break, where its version can."""
    config: Any = torch._dynamo.config
    if not hasattr(config, "nested_graph_breaks"):
        yield
        return
    before, config.nested_graph_breaks = config.nested_graph_breaks, True
    try:
        yield
    finally:
        config.nested_graph_breaks = before


def warm(engine: Engine, name: str, backend: Callable[..., Any]) -> Callable[[], Any]:
    """The program's call, compiled."""
    function, make = PROGRAMS[name]
    engine.reset()
    call = partial(engine.compile(function, backend=backend), *make())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(CALLS):
            call()
    return call


def counts(engine: Engine, name: str) -> tuple[int, int] | Failed:
    """Graphs compiled for a program, and how many of them one call runs."""
    backend = Counting()
    found: list[int] = []

    def count() -> float:
        call = warm(engine, name, backend)
        before = backend.runs
        call()
        found.extend((backend.graphs, backend.runs - before))
        return 0

    failed = attempt(count)
    return failed if isinstance(failed, Failed) else (found[0], found[1])


def excluded_calls(name: str) -> int:
    """Calls of the excluded function in one call of the program: their own time is in both columns."""
    function, make = PROGRAMS[name]
    seen: list[Any] = []
    code = aside.__code__

    def notice(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is code:
            seen.append(frame)

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        function(*make())
    finally:
        sys.setprofile(before)
    return len(seen)


def measure(name: str, rounds: int) -> tuple[str, ...]:
    """One row: medians of interleaved rounds over the same compiled callables, then the graphs."""
    measures: dict[str, Callable[[], float]] = {}
    for engine in ENGINES:
        try:
            call = warm(engine, name, ready)
        except Exception as error:
            measures[engine.name] = partial(_fail, error)
        else:
            measures[engine.name] = partial(per_call, call, {})
    times = interleaved(measures, rounds)
    theirs, ours = (counts(engine, name) for engine in ENGINES)
    cells = [number(times["torch"]), number(times["stator"]), ratio(times["torch"], times["stator"])]
    for at in range(2):
        cells += [str(found) if isinstance(found, Failed) else str(found[at]) for found in (theirs, ours)]
    return name, str(excluded_calls(name)), *cells


def _fail(error: Exception) -> float:
    raise error


def table(rounds: int = 9) -> list[tuple[str, ...]]:
    """All programs, in microseconds."""
    with torch.no_grad(), nested_breaks():
        return [HEADER, *(measure(name, rounds) for name in PROGRAMS)]
