"""Cells that several functions close over: which of them are one cell may differ from call to call."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import stator


def pair(value: Any) -> Any:
    """A function that reads a variable, and one that writes it."""

    def read() -> Any:
        return value

    def write() -> Any:
        nonlocal value
        value = value + 1
        return value

    return read, write


def read_and_written(shown: Any, x: Any) -> Any:
    first = shown.read()
    return x + first + shown.write() * 10 + shown.read() * 100


def only_written(shown: Any, x: Any) -> Any:
    shown.write()
    return x + shown.read()


def written_late(shown: Any, x: Any) -> Any:
    x = x + shown.read()
    shown.write()
    return x


def read_twice(shown: Any, x: Any) -> Any:
    return x + shown.read() * 10 + shown.write.__closure__[0].cell_contents


PROGRAMS = [read_and_written, only_written, written_late, read_twice]
ORDERS = ((0, 0), (0, 0), (0, 1), (1, 1), (1, 0), (0, 1), (0, 0)), ((0, 1), (0, 1), (0, 0), (1, 0), (1, 1), (0, 0))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", [1.0, 3, torch.ones(2)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_cell_or_two(program: Any, start: Any, order: Any) -> None:
    seen = []
    for run in (program, stator.compile(program, backend="eager")):
        pairs = [pair(start), pair(start * 5)]
        shown = types.SimpleNamespace()
        told = []
        for reader, writer in order:
            shown.read, shown.write = pairs[reader][0], pairs[writer][1]
            told.append(str((run(shown, torch.arange(2.0)), pairs[0][0](), pairs[1][0]())))
        seen.append(told)
    assert seen[0] == seen[1]


def test_functions_made_in_each_call() -> None:
    def make() -> Any:
        kept: list[Any] = []

        def program(x: Any, n: int) -> Any:
            def scaled(x: Any) -> Any:
                return x * (n + 1)

            kept.append(scaled)
            for one in kept:
                x = one(x)
            return x

        return program, kept

    program, kept = make()
    other, others = make()
    compiled = stator.compile(other, backend="eager")
    for n in range(1, 6):
        assert compiled(torch.ones(3), n).tolist() == program(torch.ones(3), n).tolist()
        values = [[one.__closure__[0].cell_contents for one in functions] for functions in (kept, others)]
        assert values[0] == values[1]


def test_fixed_functions_ask_nothing() -> None:
    read, write = pair(1.0)

    def program(x: Any) -> Any:
        return x + read() + write()

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for step in range(3):
        assert compiled(torch.zeros(1)).item() == 3.0 + 2 * step
    assert stator.stats()["recompiles"] <= 1
