"""What the collector calls while a program runs is no part of the program."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator.tensors.recorder import Recorder
from tests.breaks.counting import graphs_and_breaks

X = torch.ones(2)
collect = ctypes.pythonapi.PyGC_Collect


class Watch:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def method(self, phase: str, info: Any) -> None:
        stator.graph_break()
        self.told.append((X * 2 + len(phase)).sum())


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    gc.callbacks.append(watch.method)
    yield watch
    gc.callbacks.remove(watch.method)


@pytest.fixture
def often() -> Iterator[None]:
    """Collections at nearly every moment."""
    before = gc.get_threshold()
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)


def below_a_break(x: Any) -> Any:
    y = x + 1
    collect()
    return y * 2


def while_a_callback_runs(x: Any) -> Any:
    junk = sorted([[n] for n in range(3000)], key=lambda each: [[n] for n in each])
    return x * len(junk)


@pytest.mark.parametrize("program", [below_a_break, while_a_callback_runs])
def test_it_is_neither_captured_nor_compiled(watch: Watch, often: None, program: Any) -> None:
    gc.callbacks.remove(watch.method)
    expected = graphs_and_breaks(program, [(X,)] * 3)
    gc.callbacks.append(watch.method)
    assert graphs_and_breaks(program, [(X,)] * 3) == expected
    assert watch.told


def test_it_is_not_recorded(watch: Watch) -> None:
    """Also where stator's own code runs, in the middle of a capture."""
    with Recorder() as recorder:
        gc.collect()
    assert [type(one) for one in watch.told] == [torch.Tensor] * 2
    assert not list(recorder.graph.nodes)
