"""Functions with breaks lose no references and free what they should."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

import stator
from tests.breaks.test_threads import PROGRAMS
from tests.guards.test_memory import growth


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit mode keeps every object alive for the time of a capture, pytest all that torch logs."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)


class Thing:
    """Can be watched."""


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_calls_leak_nothing(fn: Any) -> None:
    compiled = stator.compile(fn, backend="eager")
    x = torch.ones(3)
    for k in (1, 2, 1, 2, 1, 2):
        compiled(x, k)
    assert growth(lambda: compiled(x, 1), [x, fn, fn.__code__, compiled], calls=10_000) < 100


def test_errors_leak_nothing() -> None:
    """Steps that raise, caught by the program or not."""

    @stator.disable
    def fail(x: torch.Tensor) -> None:
        raise ValueError("text")

    def caught(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        try:
            fail(y)
        except ValueError:
            return y * 2
        return y

    def not_caught(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        fail(y)
        return y

    calls = [stator.compile(fn, backend="eager") for fn in (caught, not_caught)]
    x = torch.ones(2)

    def run() -> None:
        calls[0](x)
        try:
            calls[1](x)
        except ValueError:
            return
        raise AssertionError("nothing was raised")

    run()
    assert growth(run, [fail, x], calls=5_000) < 50


def test_values_carried_over_a_break_die() -> None:
    born: list[Any] = []

    @stator.disable
    def aside(x: torch.Tensor) -> None:
        thing = Thing()
        x.thing = thing
        born.append(weakref.ref(thing))

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = [y, {"y": y}]
        aside(y)
        return z[0] * 2

    compiled = stator.compile(f, backend="eager")
    compiled(torch.ones(2))
    gc.collect()
    assert born.pop()() is None
    for _ in range(3):
        compiled(torch.ones(2))
        assert born.pop()() is None  # without a collection: a hit makes no cycles


def test_compiling_and_resetting_leaks_nothing() -> None:
    x = torch.ones(3)

    def cycle(count: int) -> None:
        for number in range(count):
            compiled = stator.compile(PROGRAMS[number % len(PROGRAMS)], backend="eager")
            compiled(x, 1)
            stator.reset()

    cycle(20)
    least = 10**9
    for _ in range(2):
        gc.collect()
        before = len(gc.get_objects())
        cycle(200)
        gc.collect()
        least = min(least, len(gc.get_objects()) - before)
    assert least < 200


def test_compiled_function_dies() -> None:
    """Its continuations and what it took below breaks keep it alive no longer than its caller does."""
    for fn in PROGRAMS:
        compiled = stator.compile(fn, backend="eager")
        compiled(torch.ones(3), 1)
        gone = weakref.ref(compiled)
        del compiled
        gc.collect()
        assert gone() is None, fn.__name__


def test_debug_allocator() -> None:
    """All programs, with errors and resets in between, under an allocator that checks every block."""
    program = (
        "import gc, torch, stator\n"
        "from tests.breaks.test_threads import PROGRAMS, flat\n"
        "x = torch.ones(3)\n"
        "for _ in range(2):\n"
        "    for fn in PROGRAMS:\n"
        "        compiled = stator.compile(fn, backend='eager')\n"
        "        for k in (1, 2, 3, 1, 2, 3):\n"
        "            assert flat(compiled(x, k)) == flat(fn(x, k)), fn\n"
        "    stator.reset()\n"
        "    gc.collect()\n"
        "print('done')\n"
    )
    path = os.pathsep.join([".", *(entry for entry in sys.path if entry)])
    env = {"PYTHONMALLOC": "debug", "PYTHONPATH": path, "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
