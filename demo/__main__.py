"""`make demo`: trains the GPT eagerly, with torch.compile and with stator, and prints what each did."""

from __future__ import annotations

import copy
import os
import statistics
import time
import timeit
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # each way compiles for itself

import torch
from torch import nn

import stator
from demo.gpt import GPT, Config, batches
from stator.report import events

STEPS = 40
TOLERANCE = 1e-2  # on the loss after all steps: Inductor rounds otherwise than eager
Call = Callable[..., Any]
Batches = Sequence[tuple[torch.Tensor, torch.Tensor]]


@dataclass
class Row:
    """What one way of running the model did."""

    name: str
    losses: list[float] = field(default_factory=list)
    graphs: int | None = None
    operations: int | None = None
    guards: int | None = None
    capture: float | None = None  # milliseconds
    overhead: float | None = None  # microseconds
    compile: float | None = None  # seconds, first step with Inductor
    step: float | None = None  # milliseconds


class Counting:
    """A backend that counts graphs and operations on the way."""

    def __init__(self) -> None:
        self.graphs = self.operations = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Call:
        self.graphs += 1
        self.operations += sum(node.op.startswith("call") for node in graph.graph.nodes)
        return graph.forward


def ready(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Call:
    """A backend whose results are there already: what a call still costs is the front end."""
    results: list[Any] = []

    def call(*args: Any) -> Any:
        if not results:
            results.append(graph.forward(*args))
        return results[0]

    return call


class Training:
    """The training loop of one row, step by step: forward compiled, backward through it, optimizer in eager."""

    def __init__(self, row: Row, model: nn.Module, call: Call) -> None:
        self.row = row
        self.call = call
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        self.times: list[float] = []

    def step(self, ids: torch.Tensor, targets: torch.Tensor) -> None:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.call(ids, targets)["loss"]
        loss.backward()
        self.optimizer.step()
        self.row.losses.append(loss.item())
        self.times.append(time.perf_counter() - start)


def train(trainings: Sequence[Training], data: Batches) -> None:
    """All at the same time, in turn: whatever else the machine does happens to each of them."""
    for batch in data:
        for training in trainings:
            training.step(*batch)
    for training in trainings:
        training.row.compile = training.times[0]
        training.row.step = statistics.median(training.times[1:]) * 1e3


def front_end(row: Row, compile: Call, model: nn.Module, data: Batches) -> None:
    """Capture time with a backend that does nothing, and the cost of a hit."""
    counting = Counting()
    start = time.perf_counter()
    compile(model, backend=counting, fullgraph=True)(*data[0])
    row.capture = (time.perf_counter() - start) * 1e3
    row.graphs, row.operations = counting.graphs, counting.operations
    call = compile(model, backend=ready, fullgraph=True)
    call(*data[0])
    timer = timeit.Timer(partial(call, *data[0]))
    row.overhead = statistics.median(timer.repeat(9, 100)) / 100 * 1e6


def torch_guards(model: nn.Module, data: Batches) -> int:
    """How many guards torch.compile keeps, as its own filter option sees them."""
    counted: list[int] = []

    def count(guards: Sequence[Any]) -> list[bool]:
        counted.append(len(guards))
        return [True] * len(guards)

    torch.compile(model, backend="eager", options={"guard_filter_fn": count})(*data[0])
    return sum(counted)


def stator_guards(model: nn.Module, data: Batches) -> int:
    with events.recording("guards") as seen:
        compiled: Call = stator.compile(model, backend="eager", fullgraph=True)
        compiled(*data[0])
    return sum(event.count for event in seen)


# Name → how to compile, how to forget, how to count guards.
ENGINES: tuple[tuple[str, Call, Call, Call], ...] = (
    ("torch.compile", torch.compile, torch.compiler.reset, torch_guards),
    ("stator", stator.compile, stator.reset, stator_guards),
)


def measure(model: nn.Module, data: Batches) -> list[Row]:
    """All ways from the same weights over the same data."""
    eager, twin = Row("eager"), copy.deepcopy(model)
    trainings = [Training(eager, twin, twin)]
    for name, compile, reset, guards in ENGINES:
        row = Row(name)
        compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # imports are not capture time
        reset()
        front_end(row, compile, copy.deepcopy(model), data)
        reset()
        row.guards = guards(copy.deepcopy(model), data)
        reset()
        twin = copy.deepcopy(model)
        trainings.append(Training(row, twin, compile(twin, fullgraph=True)))
    train(trainings, data)
    eager.compile = None
    return [training.row for training in trainings]


def _cell(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def show(rows: Sequence[Row]) -> str:
    """The table: one line per property, one column per way."""
    eager = rows[0]
    gaps = [max(abs(a - b) for a, b in zip(row.losses, eager.losses, strict=True)) for row in rows]
    lines = [
        ("", *(row.name for row in rows)),
        ("graphs", *(_cell(row.graphs, 0) for row in rows)),
        ("operations", *(_cell(row.operations, 0) for row in rows)),
        ("guards", *(_cell(row.guards, 0) for row in rows)),
        ("capture time, ms", *(_cell(row.capture) for row in rows)),
        ("call overhead, µs", *(_cell(row.overhead) for row in rows)),
        ("first step with Inductor, s", *(_cell(row.compile) for row in rows)),
        ("later steps, ms", *(_cell(row.step) for row in rows)),
        ("loss, first step", *(_cell(row.losses[0], 4) for row in rows)),
        (f"loss, step {len(eager.losses)}", *(_cell(row.losses[-1], 4) for row in rows)),
        ("largest difference from eager", "", *(f"{gap:.1e}" for gap in gaps[1:])),
    ]
    return "\n".join(f"{label:32}" + "".join(f"{cell:>16}" for cell in cells) for label, *cells in lines)


def main() -> None:
    warnings.filterwarnings("ignore", message="dynamo_pgo")
    torch.manual_seed(0)
    config = Config()
    model = GPT(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"A GPT of {config.layers} layers and {parameters:,} parameters learns a text in {STEPS} steps.")
    print("Compiling for real with Inductor, once with torch.compile and once with stator ...", flush=True)
    rows = measure(model, batches(config, STEPS))
    print(f"\n{show(rows)}\n")
    _, theirs, ours = rows
    assert theirs.capture and ours.capture and theirs.overhead and ours.overhead
    faster, cheaper = theirs.capture / ours.capture, theirs.overhead / ours.overhead
    print(f"stator captured {faster:.1f} times faster than torch.compile, and a call costs {cheaper:.1f} times less.")
    worst = max(abs(a - b) for a, b in zip(ours.losses, rows[0].losses, strict=True))
    if worst > TOLERANCE:
        raise SystemExit(f"The results of stator differ from eager by up to {worst:.1e}.")


if __name__ == "__main__":
    main()
