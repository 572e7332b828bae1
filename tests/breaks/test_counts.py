"""How often programs of everyday kinds are compiled: a bounded number of graphs, and compiled code to the end."""

from __future__ import annotations

import collections
import copy
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import stator
from stator.runtime.below import may_work
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
        y = x.sin() + 1
        log.append(time.perf_counter() >= start)
        return y.cos() * 2

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
        (printed_value, 1, 1),
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
        return (y.sin() if mode == "sin" else y.cos()) + 1

    made, ran = graphs(lambda: program, [(torch.ones(2), mode) for mode in ("sin", "cos", "sin", "cos")])
    assert made == 3 and ran == [2] * 4  # before the break it is the same graph


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


def training(steps: int) -> Any:
    weight = torch.ones(4, 3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)

    def program(x: Any) -> Any:
        total, losses = 0.0, []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (x @ weight).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.item()
            losses.append(loss.detach())
        return total, losses, weight.detach().clone()

    return program


def test_a_loop_of_training_steps_with_logging_is_one_graph() -> None:
    made, ran = graphs(lambda: training(3), CALLS[:3])
    assert made == 2 and ran == [1, 1, 1]  # without and with gradients from before


def reported(steps: int) -> Any:
    weight = torch.ones(4, 3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def program(x: Any) -> Any:
        total, hits, target = 0.0, 0, torch.tensor([1])
        for step in range(steps):
            optimizer.zero_grad()
            guess = (x @ weight).log_softmax(-1)[None]
            loss = -guess[0, 1] * (2.0 if total > 1 else 1.0)
            loss.backward()
            optimizer.step()
            total += loss.item()
            hits += (guess.argmax(-1) == target).sum().item()
            print(f"[{step}] {total / (step + 1):.4f} {hits / (step + 1):.1%}")
        return total, hits, weight.detach().clone()

    return program


def test_counters_of_a_training_loop_do_not_end_its_graph() -> None:
    made, ran = graphs(lambda: reported(3), CALLS[:3])
    assert made <= 2 and ran == [1, 1, 1]


def test_early_stopping_runs_one_graph_for_each_step() -> None:
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)

    def program(x: Any) -> Any:
        best = float("inf")
        for step in range(6):
            optimizer.zero_grad()
            loss = (x * weight).square().mean()
            loss.backward()
            optimizer.step()
            if loss.item() > best:
                break
            best = loss.item()
        return best, step

    made, ran = graphs(lambda: program, CALLS[1:4])
    assert made <= 6 and max(ran) <= 7


def test_a_history_from_before_the_break_is_not_lost() -> None:
    def program(x: Any) -> Any:
        weight = torch.ones(4, requires_grad=True)
        before = (x * weight).sum()
        stator.graph_break()
        after = before * 2 + (weight * 3).sum()
        after.backward()
        return weight.grad, after.detach()

    check(program, vary=CALLS[:2], fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Copied:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: Any) -> Any:
        made = Copied(copy.deepcopy(self.value, memo))
        stator.graph_break()
        return made


def test_a_copy_keeps_what_is_shared_across_breaks() -> None:
    def program(x: Any) -> Any:
        shared = [x]
        made = copy.deepcopy({"a": shared, "b": shared, "c": Copied(shared)})
        return made["a"] is made["b"], made["c"].value is made["a"], made["a"][0] + x

    check(program, vary=CALLS[:3], fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_addresses_are_those_of_the_running_program() -> None:
    def program(x: Any, given: Any) -> Any:
        own = [x + 1]
        seen = {id(given), id(own)}
        stator.graph_break()
        return id(given) in seen, id(own) in seen, own

    check(program, vary=[(x, [1]) for (x,) in CALLS[:3]], fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_a_copy_of_a_module_is_part_of_the_graph() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    made, _ = graphs(lambda: lambda x: copy.deepcopy(module)(x) * 2, CALLS[:3])
    assert made == 1


def grown(xs: list[torch.Tensor], n: int) -> torch.Tensor:
    xs.append(xs[0] * n)
    return torch.cat(xs)


SCRIPTED = torch.jit.script(grown)


def test_scripted_functions_take_lists_of_their_own() -> None:
    def program(x: Any) -> Any:
        parts = [x + 1, x * 2]
        return SCRIPTED(parts, 3), SCRIPTED(parts, n=2) * 2, len(parts)

    made, _ = graphs(lambda: program, CALLS[:3])
    assert made == 1


def combined(left: tuple[torch.Tensor, torch.Tensor], right: tuple[torch.Tensor, torch.Tensor], by: float = 2.0):
    a, b = left
    c, d = right
    return a * c, torch.addcmul(d, b, c) * by


COMBINED = torch.jit.script(combined)


def test_scripted_functions_take_lists_as_tuples() -> None:
    def program(x: Any) -> Any:
        both = COMBINED([x, x + 1], (x, x * 2))
        return COMBINED(right=list(both), left=both, by=0.5)

    made, _ = graphs(lambda: program, CALLS[:3])
    assert made == 1


def scaled(x: torch.Tensor, by: float = 2.0, places: tuple[torch.Tensor, int] | None = None) -> torch.Tensor:
    return x.sin() * by if places is None else x.sin() * by + places[0] * places[1]


SCALED = torch.jit.script(scaled)


def test_scripted_functions_make_floats_of_ints() -> None:
    def program(x: Any, n: int) -> Any:
        return SCALED(x, 3), SCALED(x, n), SCALED(x, by=n / 2), SCALED(x, places=(x, n))

    made, _ = graphs(lambda: program, [(CALLS[0][0], n) for n in (2, 4, 3, -5, 2**60 + 1)])
    assert made == 2
    check(lambda x: SCALED(x, 2**70), CALLS[0][0], fullgraph=False, expect_breaks=None)
    check(lambda x: SCALED(x, True), CALLS[0][0], fullgraph=False, expect_breaks=None)


@dataclass
class Row:
    place: int
    data: Any


def test_generated_methods_are_not_compiled_below_a_break() -> None:
    """They are called with other values all the time, and compute nothing."""
    methods = [Row.__init__, Row.__eq__, collections.namedtuple("Pair", ["left", "right"]).__new__]
    assert not any(may_work(method.__code__) for method in methods)  # type: ignore[attr-defined]
    assert may_work(test_generated_methods_are_not_compiled_below_a_break.__code__)


def broken(x: Any) -> Any:
    y = x + 1
    stator.graph_break()
    return y * 2


def listed(x: Any) -> Any:
    return torch.stack([broken(x * i) for i in range(5)]).sum(0)


def looped(x: Any) -> Any:
    found = []
    for i in range(5):
        x = x * i
        stator.graph_break()
        found.append(x + 1)
    return found


def numbered(x: Any) -> Any:
    for i, factor in enumerate([x, x + 1, x + 2, x + 3]):
        x = x * i + factor
        stator.graph_break()
        x = x + 1
    return x


def chosen_by_number(x: Any) -> Any:
    for i in range(4):
        x = [torch.sin, torch.cos, torch.tanh, torch.exp][i](x)
        stator.graph_break()
        x = x + 1
    return x


@pytest.mark.parametrize(("program", "most"), [(listed, 3), (looped, 3), (numbered, 3), (chosen_by_number, 5)])
def test_numbers_of_rounds_vary_at_once(program: Any, most: int) -> None:
    """The first round, all others, and what comes after the loop."""
    made, _ = graphs(lambda: program, CALLS[:3])
    assert made <= most
