"""Groups of exceptions over breaks: `except*` knows by their tracebacks which of them were raised again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stator
from stator.eval import forced

pytestmark = pytest.mark.usefixtures("unaudited")


def shape(error: BaseException) -> Any:
    inner = [shape(each) for each in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return type(error).__name__, str(error), inner


def raised_again() -> Any:
    try:
        try:
            raise ExceptionGroup("group", [TypeError(1), ValueError(2), OSError(3)])
        except* TypeError:
            stator.graph_break()
            raise
        except* ValueError:
            raise
    except ExceptionGroup as error:
        return shape(error)


def some_raised_again() -> Any:
    group = ExceptionGroup("group", [TypeError(1), ExceptionGroup("inner", [ValueError(2), TypeError(4)])])
    try:
        try:
            raise group
        except* TypeError as error:
            stator.graph_break()
            raise KeyError(5) from error
    except ExceptionGroup as error:
        cause = error.exceptions[0].__cause__
        return shape(error), cause.__traceback__ is group.__traceback__ is error.exceptions[1].__traceback__


def halves() -> Any:
    try:
        raise ExceptionGroup("group", [TypeError(1), ValueError(2)])
    except ExceptionGroup as error:
        kept, others = error.split(TypeError)
    try:
        raise others
    except ExceptionGroup as error:
        stator.graph_break()
        return kept.__traceback__ is not None, error.__traceback__.tb_next is kept.__traceback__


@pytest.mark.parametrize("setting", [None, "1", "3", "5", "7", "all"])
@pytest.mark.parametrize("program", [raised_again, some_raised_again, halves])
def test_groups(program: Callable[[], Any], setting: str | None) -> None:
    forced.force(setting)
    try:
        compiled = stator.compile(program, backend="eager")
        assert [compiled() for _ in range(2)] == [program()] * 2
    finally:
        forced.force(None)
