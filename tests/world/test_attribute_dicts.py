"""Dicts that are namespaces at the same time: of an instance, of a module, of the builtins."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator


class Plain:
    def __init__(self) -> None:
        self.a = 1


def write_item(x: torch.Tensor, d: Any, o: Any) -> Any:
    d["a"] = 5
    return o.a, x + 1


def write_item_read_before(x: torch.Tensor, d: Any, o: Any) -> Any:
    before = o.a
    d["a"] = 5
    return before, o.a, x + 1


def write_attribute(x: torch.Tensor, d: Any, o: Any) -> Any:
    count = len(d)
    o.b = 7
    return count, sorted(d), x + 1


@pytest.mark.parametrize("f", [write_item, write_item_read_before, write_attribute])
@pytest.mark.parametrize("order", [[True], [False, True, False]])
def test_a_dict_that_is_where_an_object_keeps_its_attributes(f: Any, order: list[bool]) -> None:
    def called(function: Callable[..., Any], same: bool) -> Any:
        o = Plain()
        d = vars(o) if same else {"a": 1}
        return function(torch.ones(1), d, o)[:-1], dict(d), dict(vars(o))

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    for same in order:
        assert called(compiled, same) == called(f, same)


def test_namespaces_among_other_values() -> None:
    """A namespace that is known already is guarded where it comes from."""

    def f(d: dict[str, Any]) -> Any:
        found = []
        for name, value in d.items():
            stator.graph_break()
            if name.startswith("A"):
                found.append((name, type(value).__name__))
        return found

    table = {"y": "s", "b": vars(builtins), "q": None, "A1": 3, "z": 2, "A3": 5.5}
    compiled = stator.compile(f, backend="eager")
    assert compiled(table) == compiled(table) == f(table)


def read_behind(x: torch.Tensor, t: Any) -> Any:
    d = t.__dict__
    x = x + 1
    stator.graph_break()
    missing = hasattr(t, "n")
    t.n = 3
    seen = d["n"]
    d["m"] = 5
    return x * 2, missing, seen, t.m, d is t.__dict__, d


def write_behind(x: torch.Tensor, t: Any) -> Any:
    t.n = 1
    d = t.__dict__
    x = x + 1
    stator.graph_break()
    d["n"] += 1
    x = x * 2
    t.n += 1
    return x, t.n, d["n"], d


@pytest.mark.parametrize("f", [read_behind, write_behind])
def test_a_dict_of_a_tensor_over_a_break(f: Any) -> None:
    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(2), torch.ones(1))[1:] == f(torch.ones(2), torch.ones(1))[1:]


def test_a_dict_that_may_be_that_of_a_tensor() -> None:
    def f(x: torch.Tensor, t: Any, d: Any) -> Any:
        t.n += 1
        return x + t.n, d["n"]

    compiled = stator.compile(f, backend="eager")
    for same in (False, True, True, False):
        t: Any = torch.ones(1)
        t.n = 2
        assert compiled(torch.ones(2), t, t.__dict__ if same else {"n": 2})[1] == (3 if same else 2)


class Alike:
    """A key that has the hash of an attribute's name, and says how often it was compared."""

    def __init__(self) -> None:
        self.asked = 0

    def __hash__(self) -> int:
        return hash("size")

    def __eq__(self, other: object) -> bool:
        self.asked += 1
        return False


def test_attributes_among_keys_that_are_compared_in_python() -> None:
    def f(x: torch.Tensor, o: Any) -> Any:
        return x + 1, hasattr(o, "size"), x + 2

    def asked(function: Callable[..., Any]) -> list[int]:
        key, o = Alike(), Plain()
        o.__dict__[key] = 0
        counts = []
        for _ in range(3):
            assert function(torch.ones(2), o)[1] is False
            counts.append(key.asked)
        return counts

    assert asked(stator.compile(f, backend="eager")) == asked(f)
    assert not stator.report.events.events("error")
