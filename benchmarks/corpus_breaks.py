"""Graphs and breaks of the corpus, next to torch.compile: `python -m benchmarks.corpus_breaks [name ...]`.

Over all calls of a program. One where stator needs more graphs than torch is marked; where torch makes none, it runs
the program eagerly. *ops*: operations of all graphs; *run*: those that the graphs executed. Fewer operations with as
many executed are the body of a loop that is compiled once; fewer executed are left to CPython.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

import stator
from tests.copies import World
from tests.corpus.registry import CASES, Case
from tests.corpus.test_corpus import test_program as _  # noqa: F401 - registers all cases

Found = tuple[int, int, int, int]  # graphs, breaks, operations, operations executed
Counter = Callable[[Any], tuple[Callable[..., Any], Callable[[], Found]]]


class Graphs:
    """A backend that counts graphs and their operations."""

    def __init__(self) -> None:
        self.graphs = self.operations = self.executed = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        operations = sum(node.op.startswith("call") for node in graph.graph.nodes)
        self.graphs += 1
        self.operations += operations

        def run(*args: Any) -> Any:
            self.executed += operations
            return graph.forward(*args)

        return run

    def found(self, breaks: int) -> Found:
        return self.graphs, breaks, self.operations, self.executed


def with_stator(program: Any) -> tuple[Callable[..., Any], Callable[[], Found]]:
    stator.reset()
    backend = Graphs()
    compiled = stator.compile(program, backend=backend, fullgraph=False)
    return compiled, lambda: backend.found(int(stator.stats()["graph_breaks"]))


def with_torch(program: Any) -> tuple[Callable[..., Any], Callable[[], Found]]:
    import torch._dynamo.utils as utils

    torch.compiler.reset()
    utils.counters.clear()
    backend = Graphs()
    compiled = torch.compile(program, backend=backend)
    return compiled, lambda: backend.found(sum(utils.counters["graph_break"].values()))


def counts(case: Case, engine: Counter) -> Found:
    """What there is after all calls; some are there to raise."""
    world = World()
    compiled, read = engine(world.program(case.program()))
    quiet = io.StringIO()
    torch.set_grad_enabled(True)  # torch.compile leaves it off where a graph raises in a block of no_grad
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in case.calls:
            with contextlib.suppress(Exception):
                compiled(*world.inputs(call))
    return read()


def main(names: list[str]) -> None:
    import torch._dynamo.config as config

    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    if hasattr(config, "nested_graph_breaks"):
        config.nested_graph_breaks = True
    print(f"{'program':36}{'stator graphs, breaks, ops, run':>34}{'torch graphs, breaks, ops, run':>34}")
    for name in names or CASES:
        mine, theirs = counts(CASES[name], with_stator), counts(CASES[name], with_torch)
        more = mine[0] > theirs[0] > 0
        print(f"{name:36}{mine!s:>34}{theirs!s:>34}{'   more graphs' if more else ''}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
