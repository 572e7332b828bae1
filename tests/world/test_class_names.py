"""What a class is called may change, and texts that C makes tell of it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

X = torch.ones(2)


class Thing:
    def method(self) -> None:
        pass


THING = Thing()


def message_of(function: Any) -> str:
    try:
        function()
    except (AttributeError, TypeError) as error:
        return str(error)
    return ""


PROGRAMS = {
    "repr": lambda: repr(Thing),
    "f-string": lambda: f"{Thing}",
    "percent": lambda: "%s" % (Thing,),
    "format": lambda: "{}".format(Thing),  # noqa: UP030, UP032
    "names": lambda: (Thing.__name__, Thing.__qualname__, type(THING).__name__),
    "instance": lambda: repr(THING).partition(" at ")[0],
    "containers": lambda: (str([Thing]), repr({"k": Thing}), str(Thing.__mro__)),
    "no attribute": lambda: message_of(lambda: THING.absent),  # type: ignore[attr-defined]
    "no operator": lambda: message_of(lambda: THING + 1),  # type: ignore[operator]
    "printed": lambda: print(Thing),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_texts_tell_the_new_name(name: str) -> None:
    def program(x: Any) -> Any:
        return x + 1, PROGRAMS[name]()

    def seen(call: Any) -> Any:
        with redirect_stdout(io.StringIO()) as out:
            result = call(X)[1]
        return result, out.getvalue()

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    try:
        for new in ({"__qualname__": "Thing"}, {"__qualname__": "Outer.Thing"}, {"__name__": "Other"}, {}):
            for attribute, text in new.items():
                setattr(Thing, attribute, text)
            assert seen(compiled) == seen(program)
    finally:
        Thing.__name__ = Thing.__qualname__ = "Thing"


def test_names_that_the_program_gives_itself() -> None:
    def program(x: Any, n: int) -> Any:
        Thing.__qualname__ = f"Thing{n}"
        y = x * 2
        told = repr(Thing)
        Thing.__qualname__ = "Thing"
        return y, told

    calls = [(X, n) for n in (5, 6, 7)]
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)
