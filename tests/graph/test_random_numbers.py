"""Graphs draw the random numbers that eager draws, and leave the generators as eager does, whoever compiles them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.graph.devices import is_on_cpu
from tests.harness import check
from tests.tensors.capturing import record


@pytest.mark.inductor
def test_numbers_of_eager() -> None:
    def program(x: torch.Tensor) -> Any:
        return F.dropout(x, 0.3) + torch.randn_like(x), torch.randint(9, (4,))

    check(program, torch.ones(3, 4, requires_grad=True), backend="inductor", tolerance=1e-5, strides=False)


@pytest.mark.parametrize(("options", "expected"), [(None, True), ({"fallback_random": False}, False)])
def test_the_user_decides(monkeypatch: pytest.MonkeyPatch, options: Any, expected: bool) -> None:
    from torch._inductor import compile_fx

    seen = []

    def spy(graph: Any, inputs: Any, config_patches: dict[str, Any], **rest: Any) -> Any:
        seen.append(config_patches["fallback_random"])
        return graph

    monkeypatch.setattr(compile_fx, "compile_fx", spy)
    stator.compile(lambda x: F.dropout(x, 0.5) + 1, options=options)(torch.ones(2))
    assert seen == [expected]


def test_other_devices() -> None:
    captured = record(lambda x: torch.empty(2, device="meta"), {"x": torch.ones(2)})
    assert not is_on_cpu(captured.module, [torch.ones(2)])
    captured = record(lambda x: x.split(1), {"x": torch.ones(2)})
    assert is_on_cpu(captured.module, [torch.ones(2)])
    assert not is_on_cpu(captured.module, [torch.ones(2, device="meta")])


def unused(x: torch.Tensor) -> Any:
    torch.empty((), dtype=torch.int64).random_()
    F.dropout(x, 0.5)
    return x + torch.rand(4)


def read_before_a_break(x: torch.Tensor) -> Any:
    torch.empty(()).uniform_().item()
    stator.graph_break()
    return x + torch.rand(4)


def written_over(x: torch.Tensor) -> Any:
    noise = torch.empty(4).normal_()
    noise.zero_()
    x.detach().uniform_().fill_(2)
    return x + torch.rand(4) + noise


def next_to_a_gradient(x: torch.Tensor) -> Any:
    torch.rand(3)
    return x * F.dropout(x, 0.5)


def written_to(x: torch.Tensor) -> Any:
    torch.rand(3).add_(1)
    torch.rand(3)[0].mul_(2)
    return x + torch.rand(4)


@pytest.mark.parametrize("program", [unused, read_before_a_break, written_over, written_to, next_to_a_gradient])
def test_numbers_that_nobody_looks_at_are_drawn(program: Any) -> None:
    x = torch.ones(3, 4, requires_grad=True)
    check(program, x, backend="aot_eager", backward=True, fullgraph=False, expect_graphs=None, expect_breaks=None)


def test_numbers_that_somebody_looks_at_are_no_outputs() -> None:
    def program(x: torch.Tensor, noise: torch.Tensor) -> Any:
        y = F.dropout(x * 2, 0.5, inplace=True) + torch.empty(4).normal_()
        noise.uniform_()
        x.add_(1)
        return y.relu()

    outputs = []

    def backend(graph: Any, inputs: Any) -> Any:
        outputs.extend(graph.graph.output_node().args[0])
        return graph.forward

    stator.compile(program, backend=backend)(torch.ones(3, 4), torch.ones(4))
    assert len(outputs) == 1


def test_backward_passes_draw_nothing() -> None:
    def state(program: Any) -> torch.Tensor:
        torch.manual_seed(0)
        program(torch.ones(4, requires_grad=True)).sum().backward()
        return torch.get_rng_state()

    assert torch.equal(state(stator.compile(next_to_a_gradient, backend="aot_eager")), state(next_to_a_gradient))


def test_backends_of_others_draw_them_too() -> None:
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    def backend(graph: Any, inputs: Any) -> Any:
        return aot_module_simplified(graph, inputs, fw_compiler=lambda traced, _: make_boxed_func(traced.forward))

    check(unused, torch.ones(3, 4), backend=backend)


def test_errors_of_what_nobody_looks_at() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            torch.linalg.cholesky(x)
        except RuntimeError as error:
            return str(error), y
        return y

    check(program, -torch.eye(3), backend="aot_eager", fullgraph=False, expect_graphs=None)
    check(program, torch.eye(3), backend="aot_eager")


def _of_dropout(x: torch.Tensor) -> Any:
    plain = x.detach()
    drawn = torch.bernoulli(plain, 0.4), plain.bernoulli(0.4), torch.bernoulli(plain.abs() / 9)
    return (
        drawn,
        torch.empty_like(x).bernoulli_(0.4),
        F.dropout(x + 0, 0.4, inplace=True),
        F.alpha_dropout(x, 0.4, True),
        F.dropout(x, 0.4),
    )


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
@pytest.mark.parametrize("grad", [False, True])
def test_numbers_are_drawn_in_the_order_of_memory(backend: str, grad: bool) -> None:
    """As eager draws them in place, in the layout of what they are drawn into."""
    images = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_(grad)
    for x in (images, torch.randn(4, 6).t(), torch.randn(6, 8)[:, ::2]):
        check(_of_dropout, x, backend=backend, calls=1, tolerance=1e-6)


def test_numbers_drawn_into_memory_with_gaps() -> None:
    """Normal numbers are others there: eager draws them."""

    def program(x: torch.Tensor) -> torch.Tensor:
        x[:, 1:3].normal_()
        torch.nn.init.normal_(x.t()[4:], std=0.1)
        x[3:].normal_()
        return x * 2

    check(program, torch.zeros(9, 8), backend="aot_eager", fullgraph=False, expect_breaks=None)
