"""`globals()`, `vars(x)` and `x.__dict__`: what is read by name is guarded by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

FACTOR = 3
OTHER = [0]


class Holder:
    def __init__(self) -> None:
        self.factor = 2
        self.other = 0


HOLDER = Holder()


def by_globals(x: Any) -> Any:
    return x * globals()["FACTOR"], globals().get("MISSING", 4), "FACTOR" in globals()


def by_frame(x: Any) -> Any:
    factor = sys._getframe(0).f_globals["FACTOR"]
    return x * factor, sys._getframe(0).f_globals.get("__name__"), sys._getframe(0).f_locals.get("x") is x


def by_function(x: Any) -> Any:
    return x * by_function.__globals__["FACTOR"]


def by_instance(x: Any) -> Any:
    return x * HOLDER.__dict__["factor"], "missing" in vars(HOLDER)


def by_module(x: Any) -> Any:
    return torch.__dict__["relu"](x), vars(torch).get("no_such_name")


@pytest.mark.parametrize("program", [by_globals, by_frame, by_function, by_instance, by_module])
def test_other_names_do_not_matter(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.arange(3.0)
    for i in range(3):
        monkeypatch.setitem(globals(), "OTHER", [i])
        HOLDER.other = i
        assert str(compiled(x)) == str(program(x))
    assert stator.stats()["recompiles"] == 0
    monkeypatch.setitem(globals(), "FACTOR", 7)
    monkeypatch.setattr(HOLDER, "factor", 7)
    monkeypatch.setattr(HOLDER, "missing", 1, raising=False)
    assert str(compiled(x)) == str(program(x))


def written(x: Any, holder: Any) -> Any:
    names = holder.__dict__
    names["made"] = x + 1
    holder.second = 1
    seen = names["second"], names["made"] is holder.made, names is vars(holder)
    del names["factor"]
    return seen, hasattr(holder, "factor"), list(names), sorted(vars(holder))


def kept(x: Any, holder: Any) -> Any:
    names = vars(holder)
    return [names, names], len(names), x * names["factor"]


@pytest.mark.parametrize("program", [written, kept])
def test_what_else_is_done_takes_the_whole(program: Callable[..., Any]) -> None:
    check(program, vary=lambda i: (torch.arange(3.0) + i, Holder()))


def test_a_missing_name_raises() -> None:
    check(lambda x: x * vars(HOLDER)["missing"], torch.ones(2))


def with_an_empty_variable(x: Any) -> Any:
    def inner() -> Any:
        return late

    names = vars(HOLDER)
    seen = sorted(locals())
    late = x * names["factor"]
    return inner(), seen


def test_frames_are_shown_while_a_variable_is_empty() -> None:
    check(with_an_empty_variable, torch.ones(2))
