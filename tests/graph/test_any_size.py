"""Sizes that may be anything, with backends that generate code: it is the code that other sizes have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

import stator
from stator.graph import formulas


def traced_for_inductor(seen: list[str]) -> Any:
    """A backend that runs the operations Inductor would generate code for, and lists them."""
    from torch._inductor.decomposition import select_decomp_table

    formulas.install()

    def listing(graph: Any, _: Any) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph.forward)

    def backend(graph: Any, inputs: Any) -> Any:
        return aot_module_simplified(graph, inputs, fw_compiler=listing, decompositions=select_decomp_table())

    return backend


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_softmax_over_a_size_that_may_be_anything_copies_nothing(function: Any, dtype: torch.dtype) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return function(x, -1)

    seen: list[str] = []
    compiled = stator.compile(program, backend=traced_for_inductor(seen), fullgraph=True)
    for size in (5, 1, 0, 300):
        x = torch.randn(3, size).to(dtype)
        stator.mark_unbacked(x, 1)
        expected, found = program(x), compiled(x)
        assert found.dtype is expected.dtype
        torch.testing.assert_close(found, expected)
    assert "stator.greatest.default" in seen and not any("cat" in name or "amax" in name for name in seen)
    assert stator.stats()["graphs"] == 1


def test_other_sizes_have_the_formula_of_inductor() -> None:
    seen: list[str] = []
    compiled = stator.compile(lambda x: torch.softmax(x, -1), backend=traced_for_inductor(seen), dynamic=True)
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(x), torch.softmax(x, -1))
    assert "aten.amax.default" in seen and "stator.greatest.default" not in seen


def test_what_inductor_tries_is_no_assumption() -> None:
    """It takes `4 * n == 4` for granted in the first of two ways to lay out a view: true for a single n only."""
    import sympy

    answers = []

    def backend(graph: Any, inputs: Any) -> Any:
        size = next(value.shape[0] for value in inputs if isinstance(value, torch.Tensor))
        expr, env = size.node.expr, size.node.shape_env
        answers.append(env.guard_or_defer_runtime_assert(sympy.Eq(4 * expr, 4), "sizevars.expect_true"))
        return graph.forward

    compiled = stator.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    for size in (6, 1, 9):
        x = torch.randn(size)
        stator.mark_unbacked(x, 0)
        torch.testing.assert_close(compiled(x), x + 1)
    assert answers == [False]


def test_compilers_need_not_provide_for_empty_tensors() -> None:
    compiled_for = []

    def backend(graph: Any, inputs: Any) -> Any:
        size = next(value.shape[0] for value in inputs if isinstance(value, torch.Tensor))
        assert size.node.expr.is_positive

        def run(*args: Any) -> Any:
            compiled_for.append(len(args[0]))
            return graph.forward(*args)

        return run

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 4).sum(1) / max(len(x), 1)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for size in (6, 0, 1, 9):
        x = torch.randn(size, 4)
        stator.mark_unbacked(x, 0)
        torch.testing.assert_close(compiled(x), program(x))
    assert compiled_for == [6, 1, 9] and stator.stats()["graphs"] == 1


def test_what_a_compiler_decides_about_such_a_size_is_guarded() -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        size = next(value.shape[0] for value in inputs if isinstance(value, torch.Tensor))
        expr, env = size.node.expr, size.node.shape_env
        largest = 10 ** (len(graphs) + 1)
        assert env.guard_or_defer_runtime_assert(expr <= largest, "decided")
        graphs.append(largest)
        return graph.forward

    compiled = stator.compile(lambda x: x * 2, backend=backend)
    for size, count in ((6, 1), (9, 1), (50, 2), (1, 2), (99, 2)):
        x = torch.randn(size)
        stator.mark_unbacked(x, 0)
        torch.testing.assert_close(compiled(x), x * 2)
        assert len(graphs) == count
