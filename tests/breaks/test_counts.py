"""How often programs of everyday kinds are compiled: a bounded number of graphs, and compiled code to the end."""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

CALLS = [(torch.arange(4.0) + i,) for i in range(12)]


def graphs(make: Callable[[], Any], calls: list[tuple[Any, ...]] = CALLS) -> tuple[int, list[int]]:
    """Graphs compiled in all, and the graphs that each call runs, for a program that does the same as in eager."""
    made = runs = 0

    def backend(graph: Any, inputs: Any) -> Any:
        nonlocal made
        made += 1

        def run(*args: Any) -> Any:
            nonlocal runs
            runs += 1
            return graph.forward(*args)

        return run

    check(make(), vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    stator.reset()
    compiled, ran = stator.compile(make(), backend=backend), []
    for args in calls:
        before = runs
        compiled(*args)
        ran.append(runs - before)
    return made, ran


def printed_value() -> Any:
    def program(x: Any) -> Any:
        y = x + 1
        print(f"sum {y.sum():.2f} of {y.shape}")
        return y * 2

    return program


def printed_average() -> Any:
    meter = {"total": 0.0, "count": 0}

    def program(x: Any) -> Any:
        y = x + 1
        meter["total"] += y.mean().item()
        meter["count"] += 1
        print(f"average {meter['total'] / meter['count']:.4f}")
        return y * 2

    return program


def chosen() -> Any:
    return lambda x: random.choice([torch.sin, torch.cos])(x + 1) * 2


def dropped() -> Any:
    layers = [torch.sin, torch.cos, torch.tanh]

    def program(x: Any) -> Any:
        for layer in layers:
            if random.random() < 0.5:
                x = layer(x)
        return x + 1

    return program


def collected() -> Any:
    history: dict[str, list[float]] = collections.defaultdict(list)

    def program(x: Any) -> Any:
        history["mean"].append(x.mean().item())
        history["size"].append(len(x))
        return x * 2

    return program


def timed() -> Any:
    log: list[bool] = []

    def program(x: Any) -> Any:
        start = time.perf_counter()
        y = x + 1
        log.append(time.perf_counter() >= start)
        return y * 2

    return program


def averaged() -> Any:
    log: list[float] = []

    def program(x: Any) -> Any:
        log.append(x.mean().item())
        return x * (sum(log) / len(log))

    return program


@pytest.mark.parametrize(
    ("make", "most", "each"),
    [
        (printed_value, 2, 2),
        (printed_average, 4, 1),
        (chosen, 2, 1),
        (collected, 4, 1),
        (timed, 5, 1),
        (averaged, 13, 1),  # one for each length so far, then it is left to CPython
    ],
)
def test_programs_are_compiled_for_good(make: Any, most: int, each: int) -> None:
    made, ran = graphs(make)
    assert made <= most
    assert min(ran) >= each


def test_random_layers_are_compiled_one_by_one() -> None:
    made, _ = graphs(dropped)
    assert made <= 8


def test_a_string_that_says_what_to_do_is_a_constant() -> None:
    def program(x: Any, mode: str) -> Any:
        y = x + 1
        stator.graph_break()
        return y.sin() if mode == "sin" else y.cos()

    made, ran = graphs(lambda: program, [(torch.ones(2), mode) for mode in ("sin", "cos", "sin", "cos")])
    assert made == 4 and ran == [2] * 4


def test_many_strings_behind_a_break_are_read_by_cpython() -> None:
    def program(x: Any) -> Any:
        for name in [f"layer{i}" for i in range(20)]:
            x = x + 1
            stator.graph_break()
            x = x * 2 if name.endswith("3") else x * 3
        return x

    made, _ = graphs(lambda: program, CALLS[:3])
    assert made <= 8


def test_autocast_stays_open_across_a_break() -> None:
    def program(x: Any, fails: bool) -> Any:
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x[:, None] @ x[None]
                stator.graph_break()
                y = y @ y
                with torch.autocast("cpu", enabled=False):
                    stator.graph_break()
                    z = y.float() @ y.float()
                if fails:
                    raise ValueError
        except ValueError:
            return torch.is_autocast_enabled("cpu"), x @ x
        return y, z, y @ z.to(y.dtype), torch.is_autocast_enabled("cpu")

    calls = [(CALLS[1][0], False), (CALLS[2][0], True)]
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert not torch.is_autocast_enabled("cpu")
    torch.autocast_increment_nesting()
    assert torch.autocast_decrement_nesting() == 0
    assert stator.stats()["frames_skipped"] == 0
