"""The STATE check notices every part of torch's state, in C as in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from stator.guards import GuardSet, snapshot
from stator.guards.state import differences


@contextmanager
def default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def deterministic(warn_only: bool) -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def no_autocast_cache() -> Iterator[None]:
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(True)


class FunctionMode(TorchFunctionMode):
    pass


class OtherFunctionMode(TorchFunctionMode):
    pass


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "default dtype": default_dtype,
    "default device meta": lambda: default_device("meta"),
    "default device cpu": lambda: default_device("cpu"),
    "device context": lambda: torch.device("meta"),
    "deterministic": lambda: deterministic(False),
    "deterministic, warn only": lambda: deterministic(True),
    "autocast cpu bf16": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast cpu f16": lambda: torch.autocast("cpu", torch.float16),
    "autocast cpu without cache": lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False),
    "no autocast cache": no_autocast_cache,
    "function mode": FunctionMode,
    "other function mode": OtherFunctionMode,
    "dispatch mode": DispatchMode,
    "no torch function": torch._C.DisableTorchFunction,
    "no torch function subclass": torch._C.DisableTorchFunctionSubclass,
}
SAME = {("default device meta", "device context"), ("device context", "default device meta")}


@pytest.mark.parametrize("name", STATES)
def test_states_are_told_apart(name: str) -> None:
    guards = GuardSet()
    with STATES[name]():
        guards.state(snapshot())
        program = guards.compile([])
        assert program.run(()) == []
    assert program.run(()) == 0
    failure = guards.first_failure(())
    assert failure is not None and failure.sentence.startswith("torch's state: ") and " was " in failure.sentence
    for other, enter in STATES.items():
        with enter():
            hit = program.run(()) == []
            assert hit == (guards.first_failure(()) is None), other
            assert hit == (other == name or (name, other) in SAME), other


def test_default_state_misses_in_others() -> None:
    guards = GuardSet()
    guards.state(snapshot())
    program = guards.compile([])
    assert program.run(()) == []
    for enter in STATES.values():
        with enter():
            assert program.run(()) == 0
    assert program.run(()) == []


def test_functorch_depth() -> None:
    guards = GuardSet()
    hits = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        guards.state(snapshot())
        program = guards.compile([])
        hits.append(program.run(()))

        def deeper(y: torch.Tensor) -> torch.Tensor:
            hits.append(program.run(()))
            return y

        return torch.vmap(deeper)(x)

    torch.vmap(inside)(torch.zeros(2, 3))
    assert hits == [[], 0]


def test_threads_have_their_own_state() -> None:
    guards = GuardSet()
    with torch.no_grad():
        guards.state(snapshot())
        program = guards.compile([])
        seen: list[Any] = [program.run(())]
        thread = threading.Thread(target=lambda: seen.append(program.run(())))
        thread.start()
        thread.join()
    assert seen == [[], 0]


def test_differences() -> None:
    old = snapshot()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        told = differences(old, snapshot())
    assert "grad mode was True, is now False" in told
    assert any(line.startswith("autocast on cpu was (False, ") for line in told)
