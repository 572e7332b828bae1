"""Runs the benchmarks, prints the tables and writes them to `benchmarks/results.md`."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import breaks, call_overhead, capture_time, recompiles, start, symbols, unbacked

RESULTS = Path(__file__).parent / "results.md"
Table = list[tuple[str, ...]]

# Name → title, explanation, table for a number of rounds.
BENCHMARKS: dict[str, tuple[str, str, Callable[[int], Table]]] = {
    "capture": (
        "Capture time (ms)",
        "First call with a backend that does nothing. *first*: the first capture of the model in the process; "
        "*again*: after a reset of either engine, median.",
        capture_time.table,
    ),
    "symbolic": (
        "Capture time with symbols (ms)",
        "The same with `dynamic=True`: every size of every input is a symbol.",
        capture_time.symbolic_table,
    ),
    "symbols": (
        "Capture time against the number of symbols (ms of CPU time)",
        "Programs over N tensors with `dynamic=True`, each with a size of its own: *joined*: all sizes in one "
        "expression; *branching*: a branch on each; *paired*: sizes that must agree.",
        symbols.table,
    ),
    "start": (
        "Start (s)",
        "A fresh process: from behind `import torch` to the first result of a small function, and the modules that are "
        "loaded on the way.",
        start.table,
    ),
    "overhead": (
        "Call overhead (µs)",
        "A hit with a backend whose results are ready, so that only the front end is left. Nothing is subtracted.",
        call_overhead.table,
    ),
    "breaks": (
        "Calls with breaks (µs)",
        "The same for programs that fall into several graphs, torch with nested graph breaks. *asides*: calls of an "
        "excluded function in one call of the program; what `torch.compiler.disable` itself takes is in both columns. "
        "*graphs*: compiled in all; *runs*: graphs that one call runs; 0: torch leaves the whole frame to CPython.",
        breaks.table,
    ),
    "recompiles": (
        "Graphs compiled for ten sizes or numbers",
        "Programs and models that are called with another size, int, float or rate each time. No limit ends compiling.",
        recompiles.table,
    ),
    "unbacked": (
        "Sizes from data with Inductor (ms)",
        "Run time of the graph with sizes that only data tells, next to the same with sizes from outside.",
        unbacked.table,
    ),
}


def markdown(table: Table) -> str:
    """A table with its columns aligned."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), help=f"which: {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    about = f"Python {platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} CPUs, one thread."
    parts = ["# Benchmarks", f"stator next to torch.compile in one process, medians of interleaved rounds. {about}"]
    for name in arguments.names:
        title, text, table = BENCHMARKS[name]
        parts.append(f"## {title}\n\n{text}\n\n{markdown(table(arguments.rounds))}")
        print(f"\n{parts[-1]}", flush=True)
    if set(arguments.names) == set(BENCHMARKS):
        RESULTS.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
