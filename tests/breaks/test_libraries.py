"""Calls of libraries that deal with the world around: one break for each call, however much happens inside."""

from __future__ import annotations

import asyncio
import collections
import io
import pathlib
import queue
import subprocess
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest
import torch

from stator.runtime.libraries import has_no_tensors, is_left_whole
from tests.harness import check

QUEUE: queue.Queue[Any] = queue.Queue()
CONDITION = threading.Condition()


def process(x: torch.Tensor) -> Any:
    out = subprocess.run([sys.executable, "-S", "-c", "print(7)"], capture_output=True, text=True, check=True).stdout
    return x * 2, out


def missing_program(x: torch.Tensor) -> Any:
    try:
        subprocess.run([pathlib.Path("missing") / "program"], check=True)
    except FileNotFoundError as error:
        return x * 2, str(error)


def thread(x: torch.Tensor) -> Any:
    seen: list[int] = []
    worker = threading.Thread(target=seen.append, args=(1,))
    worker.start()
    worker.join()
    return x * 2, seen


def through_a_queue(x: torch.Tensor) -> Any:
    QUEUE.put(x * 2)
    return QUEUE.get() + QUEUE.qsize()


def condition(x: torch.Tensor) -> Any:
    with CONDITION:
        y = x * 2
        CONDITION.notify_all()
    return y + 1


def saved_and_loaded(x: torch.Tensor) -> Any:
    file = io.BytesIO()
    torch.save({"x": x * 2, "sizes": [1, 2]}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)["x"] + 1


def event_loop(x: torch.Tensor) -> Any:
    async def doubled() -> Any:
        await asyncio.sleep(0)
        return x * 2

    return asyncio.run(doubled()) + 1


@pytest.mark.parametrize(
    ("program", "breaks"),
    [
        (process, 1),
        (missing_program, 1),
        (thread, 2),
        (through_a_queue, 3),
        (condition, 3),
        (saved_and_loaded, 3),
        (event_loop, 1),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_one_break_for_each_call(program: Any, breaks: int) -> None:
    vary = [(torch.ones(3) * i,) for i in range(1, 4)]
    check(program, vary=vary[:1], fullgraph=False, expect_breaks=breaks)
    check(program, vary=vary, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_a_module_with_the_name_of_a_library(monkeypatch: Any) -> None:
    """The files next to it are the user's."""
    module = types.ModuleType("wandb")
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "wandb", module)
    beside = __file__.replace("test_libraries", "test_beside")
    assert not has_no_tensors(beside)
    assert has_no_tensors(pathlib.Path(np.__file__).with_name("anything.py").as_posix())


def test_only_such_libraries_are_left_whole() -> None:
    assert is_left_whole(subprocess.__file__) and is_left_whole("<frozen genericpath>")
    assert not is_left_whole(collections.__file__) and not is_left_whole("<frozen abc>") and not is_left_whole(__file__)
