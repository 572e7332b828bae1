"""Threads, memory, and nothing left behind."""

from __future__ import annotations

import collections
import gc
import signal
import subprocess
import sys
import threading
import types
import weakref
from typing import Any

import pytest
import torch

import stator
from stator.eval.machine import Machine
from stator.shapes.env import env_class
from stator.tensors.recorder import Recorder
from stator.world import world
from tests.harness import check


@pytest.fixture
def no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit mode keeps every object alive for the time of a capture."""
    monkeypatch.setattr(world, "AUDITING", False)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.sizes = [1, 2, 3]

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"y": self.linear(x).relu() * len(self.sizes), "parts": [x, (x, self.sizes[0])]}


def test_threads_get_right_answers() -> None:
    def f(x: torch.Tensor, k: int) -> tuple[torch.Tensor, list[int]]:
        values = [i * k for i in range(3)]
        return x * k + sum(values), values

    compiled = stator.compile(f, backend="eager")
    wrong: list[Any] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        for step in range(20):
            k = (number + step) % 4
            x = torch.full((3,), float(number))
            got, expected = compiled(x, k), f(x, k)
            if not torch.equal(got[0], expected[0]) or got[1] != expected[1]:
                wrong.append((number, step, got, expected))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.usefixtures("no_audit")
def test_calls_leak_nothing() -> None:
    model = Model()
    compiled = stator.compile(model, backend="eager", fullgraph=True)
    x = torch.ones(2, 4)
    for _ in range(100):
        compiled(x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10_000):
        compiled(x)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


@pytest.mark.usefixtures("no_audit")
def test_compiling_and_resetting_leaks_nothing() -> None:
    model = Model()
    x = torch.ones(2, 4)

    def cycle(count: int) -> None:
        for _ in range(count):
            stator.compile(model, backend="eager", fullgraph=True)(x)
            stator.reset()

    cycle(20)
    gc.collect()
    before = len(gc.get_objects())
    cycle(200)
    gc.collect()
    assert len(gc.get_objects()) - before < 500


def test_compiled_function_dies() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = stator.compile(f, backend="eager")
    compiled(torch.ones(1))
    gone = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert gone() is None


def test_debug_allocator() -> None:
    program = (
        "import torch, stator\n"
        "from tests.capture.test_lifetime import Model\n"
        "m = stator.compile(Model(), backend='eager', fullgraph=True)\n"
        "x = torch.ones(2, 4)\n"
        "[m(x) for _ in range(50)]\n"
        "def g(n):\n    yield from range(n)\n"
        "f = stator.compile(lambda x, n: x + sum(sorted(g(n), key=lambda v: -v)), backend='eager', fullgraph=True)\n"
        "print([float(f(torch.zeros(1), n)) for n in range(5)])\n"
    )
    env = {"PYTHONMALLOC": "debug", "PYTHONPATH": ".", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0.0, 0.0, 1.0, 3.0, 6.0]"


def test_interruption_during_capture() -> None:
    """KeyboardInterrupt in the middle of a capture comes out, and everything is as before."""
    state: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        state.append(1)
        for i in range(10**9):
            x = x + i
        return x

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    compiled = stator.compile(f, backend="eager")
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(1))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert state == []
    assert gc.isenabled()
    assert not stator.is_compiling()
    assert stator.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1)) == 2


def test_globals_are_as_before_when_capture_fails() -> None:
    state = {"n": 0}

    def f(x: torch.Tensor) -> Any:
        state["n"] += 1
        torch.set_default_dtype(torch.float64)
        if x.sum() > 0:
            state["n"] += 10
        torch.set_default_dtype(torch.float32)
        return state["n"]

    compiled = stator.compile(f, backend="eager")
    assert compiled(torch.ones(1)) == 11
    assert state == {"n": 11}
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.usefixtures("no_audit")
def test_symbols_end_with_what_was_compiled() -> None:
    """Caches of torch would hold environments of symbols for good."""

    def fn(x: Any, k: int) -> Any:
        n = int(x.sum())
        torch._check(n >= 2)
        return torch.zeros(n) + len(x) + k if len(x) < 10 * k else x

    def environments() -> int:
        gc.collect()
        return sum(type(obj) is env_class() for obj in gc.get_objects())

    before = environments()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for k, size in ((1, 2), (2, 3), (3, 4)):
        compiled(torch.ones(size), k)
    stator.reset()
    assert environments() == before


def test_symbols_keep_no_program() -> None:
    """Graphs hold environments of symbols for as long as they serve; the capture that made them ends before."""

    def fn(x: Any, k: int) -> Any:
        if k == 2:
            return x * k
        return x + len(x) + k

    def recorders() -> int:
        gc.collect()
        return sum(type(obj) is Recorder for obj in gc.get_objects())

    before = recorders()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for k, size in ((1, 2), (2, 3), (3, 4), (4, 5)):
        compiled(torch.ones(size), k)
    del compiled
    assert recorders() == before


ENDED: list[str] = []


def ending(base: type) -> Any:
    return type(base.__name__, (base,), {"__del__": lambda self: ENDED.append(type(self).__name__)})


KINDS = [ending(base) for base in (dict, list, set, tuple, collections.deque, types.SimpleNamespace, ValueError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_copies_end_without_running_finalizers(kind: Any) -> None:
    given = kind() if kind.__name__ == "SimpleNamespace" else kind([(1, 2)])
    compiled = stator.compile(lambda x, given: (x + 1, str(given)), backend="eager")
    ENDED.clear()
    for _ in range(2):
        assert compiled(torch.ones(1), given)[1] == str(given)
    del compiled
    gc.collect()
    assert not ENDED
    del given
    assert len(ENDED) == 1


def test_generators_that_others_drop_are_not_interpreted(monkeypatch: Any) -> None:
    """Torch and sympy leave many behind; a dead one of the program may have had the same address."""
    seen = set()
    interpret = Machine.interpret

    def noting(self: Any, frame: Any) -> Any:
        seen.add(frame.code.co_filename)
        return interpret(self, frame)

    def program(x: Any, bounds: Any) -> Any:
        for bound in bounds:
            pairs = (pair for pair in (1, 2))
            x = x + x[bound : bound + 3].sum() * next(pairs)
        return x

    monkeypatch.setattr(Machine, "interpret", noting)
    check(program, torch.arange(40.0), torch.arange(4), fullgraph=True)
    assert not [file for file in seen if "sympy" in file or "symbolic_shapes" in file]


def test_what_a_capture_that_failed_had_is_gone(no_audit: None) -> None:
    log: list[str] = []

    class Bus:
        def __init__(self) -> None:
            self.members: Any = weakref.WeakSet()
            self.methods: list[Any] = []

        def join(self, one: Any) -> None:
            self.members.add(one)
            self.methods.append(weakref.WeakMethod(one.hear))
            weakref.finalize(one, log.append, "finalized")

        def tell(self, x: Any) -> list[Any]:
            return [method()(x) for method in self.methods if method() is not None]

    class Member:
        heard = 0

        def hear(self, x: Any) -> Any:
            self.heard += 1
            return x * 2

        def __del__(self) -> None:
            log.append("ended")

    def program(x: Any, early: bool) -> Any:
        one = Member()
        bus.join(one)
        told = bus.tell(x)
        if early:
            del one
        return told, bus.tell(x), len(bus.members)

    bus, kept = Bus(), Member()
    bus.join(kept)
    compiled = stator.compile(program, backend="eager")
    gc.disable()
    try:
        for calls, early in enumerate((True, False, False), 1):
            told, again, members = compiled(torch.ones(2), early)
            assert (len(told), len(again), members) == (2, 2 - early, 2 - early)
            assert log == ["ended", "finalized"] * calls
    finally:
        gc.enable()
