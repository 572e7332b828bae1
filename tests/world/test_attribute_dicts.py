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
