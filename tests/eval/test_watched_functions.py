"""C functions that native code calls go by the same policy as those the program calls itself."""

from __future__ import annotations

import functools
import io
import operator
import random
import select
import time
from datetime import datetime
from typing import Any, Callable

import pytest

import stator
from stator.errors import Unsupported
from tests.harness import check


def prints_through_c() -> int:
    list(map(print, [1, 2]))
    functools.partial(print, "p", end="!\n")()
    operator.call(print, "c")
    return 1


def globals_through_c() -> bool:
    return list(map(operator.call, [globals]))[0]["__name__"] == __name__


@pytest.mark.parametrize("program", [prints_through_c, globals_through_c])
def test_stand_ins_are_found_from_native_code(program: Callable[[], Any]) -> None:
    check(program)


@pytest.mark.parametrize(
    "program",
    [
        lambda: next(iter(time.time, 0)),
        lambda: list(map(open, ["nowhere"])),
        lambda: sorted([1, 2], key=lambda _: time.time()),
        lambda: datetime.now(),
        lambda: datetime.today(),
        lambda: random.Random().random(),
        lambda: select.epoll(),
        lambda: type("Poll", (io.FileIO,), {})("nowhere"),
    ],
)
def test_impure_functions_and_classes_are_refused(program: Callable[[], Any]) -> None:
    state = random.getstate()
    with pytest.raises(Unsupported):
        stator.compile(program, backend="eager", fullgraph=True)()
    assert random.getstate() == state


def test_watches_end_with_the_capture(capsys: pytest.CaptureFixture[str]) -> None:
    stator.compile(prints_through_c, backend="eager", fullgraph=True)()
    capsys.readouterr()
    list(map(print, ["later"]))
    assert capsys.readouterr().out == "later\n"


def bad_options() -> str:
    try:
        print(0, sep=1)
    except TypeError as error:
        return str(error)
    return ""


def test_print_complains_about_its_options() -> None:
    check(bad_options)
