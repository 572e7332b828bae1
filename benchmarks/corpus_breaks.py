"""Graphs and breaks of the corpus, next to torch.compile: `python -m benchmarks.corpus_breaks [name ...]`.

A program where stator needs more graphs than torch is marked; where torch makes none, it runs the program eagerly.
Operations are those of all graphs: fewer graphs with fewer operations leave more of the program to CPython.
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

Found = tuple[int, int, int]
Counter = Callable[[Any], tuple[Callable[..., Any], Callable[[], Found]]]


class Graphs:
    """A backend that counts graphs and their operations."""

    def __init__(self) -> None:
        self.graphs = self.operations = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        self.operations += sum(node.op.startswith("call") for node in graph.graph.nodes)
        return graph.forward


def with_stator(program: Any) -> tuple[Callable[..., Any], Callable[[], Found]]:
    stator.reset()
    backend = Graphs()
    compiled = stator.compile(program, backend=backend, fullgraph=False)
    return compiled, lambda: (backend.graphs, int(stator.stats()["graph_breaks"]), backend.operations)


def with_torch(program: Any) -> tuple[Callable[..., Any], Callable[[], Found]]:
    import torch._dynamo.utils as utils

    torch.compiler.reset()
    utils.counters.clear()
    backend = Graphs()
    compiled = torch.compile(program, backend=backend)
    return compiled, lambda: (backend.graphs, sum(utils.counters["graph_break"].values()), backend.operations)


def counts(case: Case, engine: Counter) -> Found | str:
    """Graphs, breaks and operations after the first call."""
    world = World()
    compiled, read = engine(world.program(case.program()))
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled(*world.inputs(case.calls[0]))
        except Exception as error:
            return type(error).__name__
    return read()


def main(names: list[str]) -> None:
    import torch._dynamo.config as config

    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    if hasattr(config, "nested_graph_breaks"):
        config.nested_graph_breaks = True
    print(f"{'program':36}{'stator graphs, breaks, ops':>28}{'torch graphs, breaks, ops':>28}")
    for name in names or CASES:
        mine, theirs = counts(CASES[name], with_stator), counts(CASES[name], with_torch)
        more = isinstance(mine, tuple) and isinstance(theirs, tuple) and mine[0] > theirs[0] > 0
        print(f"{name:36}{mine!s:>28}{theirs!s:>28}{'   more graphs' if more else ''}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
