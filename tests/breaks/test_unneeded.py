"""Variables that nothing reads behind a break: graphs do not give their tensors, and nobody can tell."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pytest
import torch

import stator
from stator.code.needed import needed_slots
from stator.eval.machine import code_info
from tests.harness import check

X = torch.arange(6.0).reshape(2, 3) + 1
W = torch.ones(3, 3, requires_grad=True)


def outputs(program: Any, *args: Any) -> list[int]:
    """How many outputs each graph has."""
    found = []

    def backend(graph: Any, inputs: Any) -> Any:
        found.append(len(graph.graph.output_node().args[0]))
        return graph.forward

    compiled = stator.compile(program, backend=backend)
    assert torch.equal(compiled(*args), program(*args))
    return found


def test_graphs_give_what_is_read_behind_the_break() -> None:
    def program(x: Any) -> Any:
        a = x.sin()
        b = a + 1
        c = b * 2
        stator.graph_break()
        return c.cos() + b.exp()

    assert outputs(program, X) == [2, 1]


def test_in_all_frames() -> None:
    def inner(x: Any) -> Any:
        a = x.sin()
        b = a * 2
        stator.graph_break()
        return b + 1

    def program(x: Any) -> Any:
        c = x.exp()
        d = c + 1
        return (inner(d) * d).tan() + 1

    assert outputs(program, X) == [2, 1]


def test_variables_of_the_next_round_and_of_handlers() -> None:
    def program(x: Any) -> Any:
        first, last, total = x.sin(), x.cos(), x
        for i in range(3):
            made = total * 2
            try:
                stator.graph_break()
                if i == 1:
                    raise ValueError(i)
                total = total + last
            except ValueError:
                total = total + made + first
            last = made
        return total

    check(program, X, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_what_is_overwritten_was_not_needed_for_backward() -> None:
    """The norm decides only: its gradient is never asked for."""

    def program(x: Any, w: Any) -> Any:
        h = x @ w
        norm = h.norm(dim=-1)
        if norm.max() > 0.1:
            h *= 0.5
        return h.sin()

    check(program, X, W, fullgraph=False, backend="aot_eager", backward=True, tolerance=1e-6, expect_breaks=1)


def test_variables_that_the_program_looks_at_by_name() -> None:
    def program(x: Any) -> Any:
        a = x + 1
        k = 3
        stator.graph_break()
        b = a * 2
        return b, sorted(locals()), eval("k")

    check(program, X, fullgraph=False, expect_breaks=None)


def variables() -> dict[str, Any]:
    """Those of the caller."""
    return dict(sys._getframe(1).f_locals)


def test_variables_that_a_called_function_looks_at() -> None:
    def program(x: Any) -> Any:
        a = x + 1
        seen = variables()
        return seen["a"] * 2

    check(program, X, fullgraph=False, expect_breaks=None)


def test_weak_references_live_as_long_as_the_variable() -> None:
    def program(x: Any) -> Any:
        a = x + 1
        seen = weakref.ref(a)
        stator.graph_break()
        b = x * 2
        return b + 1, seen() is None

    check(program, X, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_deleting_needs_the_variable() -> None:
    def program(x: Any) -> Any:
        a = x + 1
        stator.graph_break()
        del a
        return x * 2

    check(program, X, fullgraph=False, expect_breaks=None)


def test_attributes_of_tensors_live_as_long_as_the_variable(capsys: Any) -> None:
    class Told:
        def __del__(self) -> None:
            print("end")

    def program(x: Any) -> Any:
        a = x + 1
        a.told = Told()
        stator.graph_break()
        print("behind")
        return x * 2

    check(program, X, fullgraph=False, expect_breaks=None)


def sample(a: Any, b: Any, flag: Any) -> Any:
    c = a
    while flag:
        d = b
        try:
            e = flag(d)
        except ValueError:
            e = c
        flag = e
    return flag


@pytest.mark.parametrize(
    ("name", "number", "needed"),
    [("LOAD_FAST", 0, "a b flag"), ("STORE_FAST", 1, "b c flag"), ("PRECALL", 0, "b c"), ("RETURN_VALUE", 0, "")],
)
def test_needed(name: str, number: int, needed: str) -> None:
    info = code_info(sample.__code__)
    at = [unit for unit, found in enumerate(info.names) if found == name][number]
    bits = needed_slots(info, at)
    assert {slot for i, slot in enumerate(info.slots) if bits >> i & 1} == set(needed.split())


def doubled_of_caller(z: Any) -> Any:
    return z + sys._getframe(1).f_locals["doubled"]


def passes_it_on(z: Any) -> Any:
    return z * helper_of_helper(z)


def helper_of_helper(z: Any) -> Any:
    import inspect

    return inspect.currentframe().f_back.f_back.f_locals["doubled"]  # type: ignore[union-attr]


class Looker:
    def look(self, z: Any) -> Any:
        return z - getattr(sys._getframe(1), "f_locals")["doubled"]  # noqa: B009

    __call__ = look


LOOKER = Looker()


def asks_a_function(x: Any) -> Any:
    doubled = x * 2
    y = doubled + 1
    stator.graph_break()
    return doubled_of_caller(y + 1)


def asks_one_that_asks(x: Any) -> Any:
    doubled = x * 2
    y = doubled + 1
    if y.sum() > 0:
        y = y + 1
    return passes_it_on(y)


def asks_a_method(x: Any) -> Any:
    looker = Looker()
    doubled = x * 2
    y = doubled + 1
    stator.graph_break()
    return looker.look(y) + LOOKER(y)


def asks_a_closure(x: Any) -> Any:
    def look(z: Any) -> Any:
        return z + sys._getframe(1).f_locals["doubled"]

    doubled = x * 2
    y = doubled + 1
    stator.graph_break()
    return look(y)


@pytest.mark.parametrize("program", [asks_a_function, asks_one_that_asks, asks_a_method, asks_a_closure])
def test_functions_that_look_at_variables_of_their_callers(program: Any) -> None:
    check(program, X, fullgraph=False, expect_breaks=None, expect_recompiles=None)
