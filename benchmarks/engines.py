"""The two ways to compile that are compared, and the backends that leave only the front end to measure."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import stator

Call = Callable[[], Any]


@dataclass(frozen=True)
class Engine:
    """A name, how to compile a function or module, and how to forget everything."""

    name: str
    compile: Callable[..., Callable[..., Any]]
    reset: Callable[[], None]


ENGINES = (Engine("torch", torch.compile, torch.compiler.reset), Engine("stator", stator.compile, stator.reset))


def no_op(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend that compiles nothing."""
    return graph.forward


def ready(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend whose code computes once and then gives the same results again: all the rest is front end."""
    results: Any = None

    def call(*args: Any) -> Any:
        nonlocal results
        if results is None:
            results = graph.forward(*args)
        return results

    return call


class Failed(Exception):
    """An engine cannot do this at all; the text says why."""


def attempt(action: Callable[[], float]) -> float | Failed:
    """The measurement, or why there is none: one engine's failure must not hide the other's number."""
    try:
        return action()
    except Exception as error:
        return Failed(f"{type(error).__name__}: {str(error).splitlines()[0]:.60}")


def interleaved(measures: dict[str, Callable[[], float]], rounds: int) -> dict[str, float | Failed]:
    """The median of each measurement over rounds in which all take turns, each round in another order."""
    seen: dict[str, list[float]] = {name: [] for name in measures}
    failed: dict[str, Failed] = {}
    for number in range(rounds):
        names = list(measures)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if name in failed:
                continue
            gc.collect()
            result = attempt(measures[name])
            if isinstance(result, Failed):
                failed[name] = result
            else:
                seen[name].append(result)
    return {name: failed.get(name) or statistics.median(seen[name]) for name in measures}


def number(value: float | Failed, digits: int = 2) -> str:
    """A cell of a table."""
    return str(value) if isinstance(value, Failed) else f"{value:,.{digits}f}"


def ratio(theirs: float | Failed, ours: float | Failed) -> str:
    """How many times less we need."""
    if isinstance(theirs, Failed) or isinstance(ours, Failed):
        return "–"
    return f"{theirs / ours:.1f}×"
