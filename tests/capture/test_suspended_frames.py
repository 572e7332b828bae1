"""Generators and coroutines of functions from outside write to what these close over."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from tests.harness import check


def drive(coroutine: Any) -> Any:
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def suspending() -> dict[str, Any]:
    """Programs by name; they do not close over that themselves."""
    log: list[Any] = []
    count = 0

    def steps(n: int) -> Any:
        nonlocal count
        for index in range(n):
            count += 1
            log.append(index)
            yield count

    @contextlib.contextmanager
    def scope() -> Any:
        nonlocal count
        count += 1
        log.append("in")
        yield count
        log.append("out")

    async def later(x: Any) -> Any:
        nonlocal count
        count += 1
        log.append("later")
        return x + count

    async def pieces() -> Any:
        log.append(count)
        yield 1

    async def whole(x: Any) -> Any:
        return [await later(x) async for _ in pieces()]

    def generator(x: Any) -> Any:
        return [x + step for step in steps(2)]

    def native(x: Any) -> Any:
        return x + sum(steps(2)), max(steps(1)), sorted(steps(2), key=lambda step: -step)

    def manager(x: Any) -> Any:
        with scope() as number:
            return x + number

    def coroutine(x: Any) -> Any:
        return drive(later(x)), drive(whole(x))

    return {program.__name__: program for program in (generator, native, manager, coroutine)}


@pytest.mark.parametrize("name", suspending())
def test_cells_of_suspended_frames(name: str) -> None:
    check(suspending()[name], torch.ones(2), calls=4, expect_recompiles=None)
