"""Programs that replace functions of the interpreter see calls of their own alone, and none of what stator does."""

from __future__ import annotations

import builtins
import io
import logging
import time
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

X = torch.arange(6.0).reshape(2, 3)


def hears_imports(x: Any) -> Any:
    real, heard = builtins.__import__, []

    def importing(name: str, *rest: Any) -> Any:
        heard.append(name)
        return real(name, *rest)

    builtins.__import__ = importing
    try:
        y = x.softmax(0) * torch.ones(3)
        stator.graph_break()
        import math

        z = torch.nn.functional.layer_norm(y, (3,)) * math.pi
        stator.graph_break()
        import os.path as paths

        z = torch.where(z > 0, z, -z) + len(paths.sep)
    finally:
        builtins.__import__ = real
    return z, [name for name in heard if name in ("math", "os.path")], len(heard)


def opens_texts(x: Any) -> Any:
    real, names = builtins.open, []

    def opening(name: Any, *rest: Any, **options: Any) -> Any:
        names.append(name)
        return io.StringIO(f"text of {name}")

    y = x + 1
    builtins.open = opening  # type: ignore[assignment]
    try:
        if y.sum() > 0:
            with open("weights") as file:
                text = file.read()
        z = y.relu()
        stator.graph_break()
        z = z.cos()
    finally:
        builtins.open = real
    return z, text, names


def counts_lengths(x: Any) -> Any:
    real, counted = builtins.len, [0]

    def counting(of: Any) -> int:
        counted[0] += 1
        return real(of)

    builtins.len = counting
    try:
        y = x * len(x)
        stator.graph_break()
        y = y.sum(0) + len(x)
    finally:
        builtins.len = real
    return y, counted


def counts_time(x: Any) -> Any:
    real, times = time.perf_counter, iter(range(100))
    time.perf_counter = lambda: next(times)  # type: ignore[assignment]
    try:
        began = time.perf_counter()
        y = x.softmax(0)
        stator.graph_break()
        y = y @ y.T
        took = time.perf_counter() - began
    finally:
        time.perf_counter = real
    return y, took, next(times)


def hears_loggers(x: Any) -> Any:
    real, heard = logging.Logger.debug, []

    def hearing(self: Any, *args: Any, **kwargs: Any) -> None:
        heard.append(self.name)

    y = x + 1
    logging.Logger.debug = hearing  # type: ignore[method-assign]
    try:
        stator.graph_break()
        y = y.cos() + 1
        logging.getLogger("mine").debug("is it heard?")
    finally:
        logging.Logger.debug = real  # type: ignore[method-assign]
    return y, heard


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [hears_imports, opens_texts, counts_lengths, counts_time, hears_loggers])
def test_program_sees_its_own_calls_alone(program: Any, backend: str) -> None:
    shapes = [(X,), (X,), (X.repeat(2, 1),)]
    check(program, vary=shapes, backend=backend, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_other_builtins_are_the_programs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `print` that only the first of several processes performs is no reason not to compile."""
    stator.reset()
    compiled = stator.compile(lambda x: x.sin() + 1, backend="eager")
    monkeypatch.setattr(builtins, "print", lambda *args: None)
    compiled(X)
    assert stator.stats()["frames_captured"] == 1


def test_those_in_place_when_a_function_is_compiled_are_everybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda *args, **kwargs: real(*args, **kwargs))
    stator.reset()
    stator.compile(lambda x: x.sin() + 1, backend="eager")(X)
    assert stator.stats()["frames_captured"] == 1


def test_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stator.reset()
    compiled = stator.compile(lambda x: x.sin() + 1, backend="eager")
    whole = stator.compile(lambda x: x.sin() + 1, backend="eager", fullgraph=True)
    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda *args, **kwargs: real(*args, **kwargs))
    assert torch.equal(compiled(X), X.sin() + 1)
    told = events.events("skip")
    assert [event.break_id for event in told] == ["interpreter-watched"]
    with pytest.raises(stator.Unsupported, match="builtins.__import__ was replaced"):
        whole(X)
