"""Threads that call functions with breaks while others compile them and forget them."""

from __future__ import annotations

import faulthandler
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

import stator
from stator.report import events

THREADS = 8
PATIENCE = 240.0  # a thread that is not done by then never will be


@pytest.fixture(autouse=True)
def breaks() -> Iterator[None]:
    """Every program breaks and goes on, and nothing goes wrong inside stator."""
    with events.recording("break", "skip", "error") as seen:
        yield
    assert [event for event in seen if event.kind == "break"]
    assert not [event for event in seen if event.kind == "error" or event.fields.get("break_id") == "internal"]


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads take turns often; no audit, which looks at every object."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def together(works: Sequence[Callable[[], None]], meanwhile: Callable[[], None] | None = None) -> None:
    """Runs everything at once; `meanwhile` again and again until the rest is done."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENCE
    while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
        if meanwhile is not None:
            meanwhile()
        threads[0].join(0.01)
        for thread in threads if meanwhile is None else ():
            thread.join(max(0.0, end - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail("threads wait for each other")
    if errors:
        raise errors[0]


@stator.disable
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def key(value: torch.Tensor) -> float:
    return float((value * 2).sum())


@stator.disable(recursive=False)
def calls_back(x: torch.Tensor) -> torch.Tensor:
    return worker(x, 3) - worker(x, 2)


def worker(x: torch.Tensor, k: int) -> torch.Tensor:
    return (x * k).relu()


def branch(x: torch.Tensor, k: int) -> Any:
    y = x * k
    if y.sum() > 4:
        return "large", y + 1
    return "small", y - 1


def nested(x: torch.Tensor, k: int) -> Any:
    return [middle(x + 1, k) * 2, k]


def middle(x: torch.Tensor, k: int) -> torch.Tensor:
    return innermost(x * 3) + k


def innermost(x: torch.Tensor) -> torch.Tensor:
    y = x - 1
    z = opaque(y)
    return y * z


def loop(x: torch.Tensor, k: int) -> Any:
    seen = []
    for i in range(k + 1):
        x = x + 1
        stator.graph_break()
        seen.append(i)
    return x, seen


def below(x: torch.Tensor, k: int) -> Any:
    y = x + k
    z = calls_back(y)
    return y * z


def handled(x: torch.Tensor, k: int) -> Any:
    try:
        y = x + k
        opaque(y)
        if k % 2:
            raise ValueError(k)
    except ValueError as error:
        return x * 2, error.args
    finally:
        x = x + 1
    return y * x


PROGRAMS = (branch, nested, loop, below, handled)


def flat(value: Any) -> list[Any]:
    """Everything in a result, comparable."""
    if isinstance(value, torch.Tensor):
        return [value.dtype, *value.tolist()]
    return list(itertools.chain.from_iterable(map(flat, value))) if isinstance(value, (list, tuple)) else [value]


def caller(compiled: dict[Any, Any], number: int, rounds: int) -> Callable[[], None]:
    """Calls all programs, each thread in an order of its own."""

    def work() -> None:
        for step in range(rounds):
            for at in range(len(PROGRAMS)):
                fn = PROGRAMS[(at + number) % len(PROGRAMS)]
                x, k = torch.full((3,), float(number % 3)), (number + step) % 3
                got, expected = flat(compiled[fn](x, k)), flat(fn(x, k))
                assert got == expected, (fn.__name__, number, step, got, expected)

    return work


def test_calls_while_compiling() -> None:
    compiled = {fn: stator.compile(fn, backend="eager") for fn in PROGRAMS}
    together([caller(compiled, number, 8) for number in range(THREADS)])


def test_calls_while_resetting() -> None:
    compiled = {fn: stator.compile(fn, backend="eager") for fn in PROGRAMS}
    together([caller(compiled, number, 12) for number in range(THREADS)], stator.reset)


def test_hits_while_resetting() -> None:
    """Entries vanish while they run, in calls too short to be compiled again each time."""
    compiled = {fn: stator.compile(fn, backend="eager") for fn in PROGRAMS}

    def reset_sometimes() -> None:
        time.sleep(0.1)
        stator.reset()

    together([caller(compiled, number, 25) for number in range(THREADS)], reset_sometimes)


def counting(calls: list[int]) -> Callable[..., Any]:
    """A backend that notes in which of its own graphs a thread is."""

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            calls.append(threading.get_ident())
            return graph.forward(*args)

        return run

    return backend


def test_two_compilations_of_one_function() -> None:
    """Each has graphs of its own: the threads of one never run a graph of the other."""
    ran: list[list[int]] = [[], []]
    sides = [{fn: stator.compile(fn, backend=counting(calls)) for fn in PROGRAMS} for calls in ran]
    of: list[set[int]] = [set(), set()]

    def work(number: int) -> Callable[[], None]:
        call = caller(sides[number % 2], number, 6)

        def run() -> None:
            of[number % 2].add(threading.get_ident())
            call()

        return run

    together([work(number) for number in range(THREADS)])
    assert all(ran)
    assert set(ran[0]) <= of[0]
    assert set(ran[1]) <= of[1]


def test_hook_is_gone_afterwards() -> None:
    """CPython evaluates frames by itself again, on all threads."""
    compiled = {fn: stator.compile(fn, backend="eager") for fn in PROGRAMS}
    together([caller(compiled, number, 2) for number in range(THREADS)])
    assert stator._frames.armed() == 0


def test_compiled_function_in_a_step_of_another() -> None:
    """A thread that executes a breaking instruction holds no lock: two functions may call each other there."""
    both = threading.Barrier(2)

    @stator.disable
    def meet(other: str, depth: int, x: torch.Tensor) -> torch.Tensor:
        if depth:
            both.wait(PATIENCE)
            return made[other](x, depth - 1)
        return x

    def first(x: torch.Tensor, depth: int) -> torch.Tensor:
        y = x + 1
        return meet("second", depth, y) * 2

    def second(x: torch.Tensor, depth: int) -> torch.Tensor:
        y = x * 3
        return meet("first", depth, y) - 1

    made = {fn.__name__: stator.compile(fn, backend="eager") for fn in (first, second)}
    results: dict[str, torch.Tensor] = {}
    x = torch.ones(2)
    together([lambda name=name: results.update({name: made[name](x, 1)}) for name in made])  # type: ignore[misc]
    assert results["first"].tolist() == [10.0, 10.0]
    assert results["second"].tolist() == [7.0, 7.0]
