"""Handlers that the program itself looks at: messages reach them before it does."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
import torch

import stator


class Collecting(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


class Writing(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        WRITTEN.append(record.levelname)


WRITTEN: list[str] = []
LOGGER = logging.getLogger(__name__)
COLLECTING = Collecting()


def attribute(x: torch.Tensor) -> Any:
    LOGGER.info("of %d", len(x))
    return x + len(COLLECTING.seen), COLLECTING.seen[-1]


def from_data(x: torch.Tensor) -> Any:
    LOGGER.info("sum %s", x.sum().item())
    return x * 2, len(COLLECTING.seen)


def in_globals(x: torch.Tensor) -> Any:
    LOGGER.warning("now")
    return x + len(WRITTEN)


def unseen(x: torch.Tensor) -> Any:
    LOGGER.info("one")
    return x + 1


@pytest.mark.parametrize(("program", "breaks"), [(attribute, 1), (from_data, 1), (in_globals, 1), (unseen, 0)])
def test_what_handlers_do_is_seen(program: Any, breaks: int) -> None:
    handlers = [COLLECTING, Writing()]
    outcomes = []
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    for handler in handlers:
        LOGGER.addHandler(handler)
    try:
        for run in (program, stator.compile(program, backend="eager")):
            COLLECTING.seen.clear()
            WRITTEN.clear()
            outcomes.append(repr([run(torch.ones(2) * i) for i in range(3)]) + repr((COLLECTING.seen, WRITTEN)))
    finally:
        for handler in handlers:
            LOGGER.removeHandler(handler)
    assert outcomes[0] == outcomes[1]
    assert (stator.stats()["graph_breaks"] > 0) == bool(breaks)


def test_handlers_that_come_and_go_around_a_message() -> None:
    """A message goes to the handlers that were there when it was logged."""
    logger = logging.getLogger("stator.tests.passing")
    logger.propagate = False

    def f(x: torch.Tensor, handler: Any) -> Any:
        logger.addHandler(handler)
        level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.debug("hello")
        logger.setLevel(level)
        logger.removeHandler(handler)
        return x + 1

    stream = io.StringIO()
    compiled, handler = stator.compile(f, backend="eager"), logging.StreamHandler(stream)
    for _ in range(2):
        compiled(torch.ones(1), handler)
    assert stream.getvalue() == "hello\nhello\n"
