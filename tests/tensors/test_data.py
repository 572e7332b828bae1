"""`tensor.data = other`, and writes to the memory after that: values, gradients and identity are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


class Holder(torch.nn.Module):
    """A parameter and a plain tensor, which a program gives other data."""

    def __init__(self, program: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.program = program
        self.w = torch.nn.Parameter(torch.tensor([1.5]))
        self.other = torch.nn.Parameter(torch.tensor([2.0]))
        self.plain = torch.tensor([3.0])

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


def write_after(m: Any, x: Any) -> Any:
    m.w.data = m.w.data + 1
    y = m.w * x
    m.w.data.mul_(3)
    return y + m.w * x


def write_to_the_source(m: Any, x: Any) -> Any:
    d = x.detach()[:1] + 1
    m.w.data = d
    d.add_(5)
    y = m.w * x
    d.mul_(2)
    return y + m.w * x, d


def write_without_grad(m: Any, x: Any) -> Any:
    m.w.data = m.w.data * 2
    with torch.no_grad():
        m.w.add_(1)
    return m.w * x


def twice(m: Any, x: Any) -> Any:
    m.w.data = m.w.data + 1
    first = m.w.data
    m.w.data = m.w.data * 2
    first.zero_()
    m.w.data.sub_(0.5)
    return m.w * x, first


def shared_by_parameters(m: Any, x: Any) -> Any:
    m.w.data = m.other.data
    m.other.data.add_(1)
    m.w.data.mul_(2)
    return m.w * x + m.other * x


def part_of_another(m: Any, x: Any) -> Any:
    d = x.detach() * 2
    m.w.data = d[1:2]
    d.add_(1)
    m.w.data.mul_(3)
    return m.w * x, d


def plain(m: Any, x: Any) -> Any:
    d = x.detach()[:1] * 2
    m.plain.data = d
    y = m.w * m.plain * x
    d.add_(1)
    return y, m.plain * m.w


def made_inside(m: Any, x: Any) -> Any:
    t = torch.zeros(1)
    d = x.detach()[:1] * 2
    t.data = d
    y = m.w * t * x
    d.add_(1)
    return y, t * m.w, t


def frozen_for_a_while(m: Any, x: Any) -> Any:
    m.w.data = m.w.data * 2
    m.w.requires_grad_(False)
    y = m.w * x
    m.w.requires_grad_(True)
    m.plain.data = m.plain.data + 1
    m.plain.requires_grad_()
    z = m.plain * x
    m.plain.requires_grad_(False)
    return y, z, m.w * x


def leaves_made_inside(m: Any, x: Any) -> Any:
    """They stay leaves and parameters, and gradients of what was computed before reach them."""
    p, frozen = torch.nn.Parameter(x.detach().clone()), torch.nn.Parameter(x.detach(), requires_grad=False)
    before = (p * 2).sum()
    p.data, frozen.data = x.detach() * 3, x.detach()[:2]
    return p, frozen, before + (p * x).sum()


def write_to_a_view(m: Any, x: Any) -> Any:
    m.w.data = x.detach()[:1] * 2
    try:
        m.w[0].add_(3)
    except RuntimeError as error:
        return str(error), m.w * x
    return m.w * x


def view_comes_out(m: Any, x: Any) -> Any:
    m.w.data = x.detach()[:1] * 2
    part = m.w.view(1, 1)
    return part, part._base is m.w, part.sum() * x


def versions(m: Any, x: Any) -> Any:
    made = x.detach() * 2
    made.add_(1)
    m.plain.data, made.data = made, x.detach() * 3
    m.plain.add_(1)
    made.mul_(2)
    kept = copy.deepcopy(made)
    kept.add_(1)
    return m.plain._version, made._version, kept._version, copy.deepcopy(m.plain)._version, x * kept


def swapped(m: Any, x: Any) -> Any:
    """Autograd remembers the parameter itself, which has its own data again when it is asked."""
    kept, m.w.data = m.w.data, x.detach()[:1] * 2
    y = m.w * m.w * x
    m.w.data = kept
    return y


def swapped_again(m: Any, x: Any) -> Any:
    parameters = [m.w, m.other]
    kept = [parameter.data for parameter in parameters]
    for parameter in parameters:
        parameter.data = parameter.data + 1
    m.w.data = m.w.data * 2
    first, second = torch.cat([m.w, m.other]).exp().chunk(2)
    y = first * m.w.view(1, 1) + torch.utils.checkpoint.checkpoint(torch.mul, m.other, m.other, use_reentrant=False)
    for parameter, data in zip(parameters, kept, strict=True):
        parameter.data = data
    return y * second * x


def swapped_behind_a_break(m: Any, x: Any) -> Any:
    kept, m.w.data = m.w.data, x.detach()[:1] * 2
    y = m.w * m.w * x
    stator.graph_break()
    m.w.data = kept
    return y


def swapped_with_a_gradient_left(m: Any, x: Any) -> Any:
    kept, m.w.data = m.w.data, x.detach()[:1] * 2
    square, y = m.w * m.w, m.w * x
    grad = torch.autograd.grad(square.sum(), [m.w])[0]
    m.w.data = kept
    return y * grad


def swapped_for_a_gradient(m: Any, x: Any) -> Any:
    """What autograd remembers is used up before the parameter has its own data again."""
    kept, m.w.data = m.w.data, m.w.data + 0.1
    grad = torch.autograd.grad((m.w * m.w * x.detach()).sum(), [m.w])[0]
    m.w.data = kept
    return m.w * grad * x


def swapped_for_a_look(m: Any, x: Any) -> Any:
    kept, m.w.data = m.w.data, m.w.data + 0.1
    with torch.no_grad():
        seen = m.w * x
    m.w.data = kept
    return m.w * seen * x


PROGRAMS = [swapped, swapped_again, swapped_behind_a_break, swapped_with_a_gradient_left, swapped_for_a_gradient,
            swapped_for_a_look, write_after, write_to_the_source, write_without_grad, twice, shared_by_parameters,
            part_of_another, plain, made_inside, frozen_for_a_while, leaves_made_inside, write_to_a_view,
            view_comes_out]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes(program: Callable[[Any, Any], Any], backend: str) -> None:
    def inputs(call: int) -> tuple[Any, ...]:
        return (torch.tensor([1.0, 2.0, 3.0 + call], requires_grad=True),)

    check(
        Holder(program), vary=inputs, backend=backend, backward=True, fullgraph=False,
        expect_graphs=None, expect_recompiles=None, expect_breaks=None,
    )  # fmt: skip


def test_versions() -> None:
    check(
        Holder(versions), torch.tensor([1.0, 2.0], requires_grad=True), fullgraph=False,
        expect_graphs=None, expect_recompiles=None, expect_breaks=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "program", [write_after, write_to_the_source, twice, swapped_for_a_gradient, swapped_for_a_look]
)
def test_no_break(program: Callable[[Any, Any], Any]) -> None:
    check(Holder(program), torch.tensor([1.0, 2.0]), backward=True, expect_recompiles=None, expect_graphs=None)


def wider(x: Any, w: Any) -> Any:
    w.data = w.data.double() * 2
    return (x.double() * w).square().sum()


def wider_after_a_gradient(x: Any, w: Any) -> Any:
    (x * w).sum().backward()
    w.data = w.data.to(torch.float64)
    return (x.double() * w).square().sum(), w.grad.dtype


def there_and_back(x: Any, w: Any) -> Any:
    layer = torch.nn.Linear(3, 1)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    layer(x).sum().backward()
    layer.bias.data = layer.bias.data.double()
    stator.graph_break()
    layer.bias.data = layer.bias.data.float()
    layer(x).square().sum().backward()
    return layer.weight.grad, layer.bias.grad, w * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [wider, wider_after_a_gradient, there_and_back])
def test_gradients_have_the_dtype_that_autograd_remembers(program: Any, backend: str) -> None:
    def inputs(call: int) -> tuple[Any, ...]:
        return torch.ones(3), torch.tensor([1.0, 2.0, 3.0 + call], requires_grad=True)

    back = program is wider
    check(program, vary=inputs, backend=backend, backward=back, fullgraph=False, expect_breaks=None,
          expect_recompiles=None)  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_swapped_leaf_among_sizes_that_vary(backend):
    def program(p, d, x):
        keep = p.data
        p.data = d
        y = p * x
        p.data = keep
        return y

    compiled = stator.compile(program, backend=backend, dynamic=True)
    for size in (3, 4):
        slopes = []
        for run in (program, compiled):
            x = torch.ones(size, requires_grad=True)
            run(torch.nn.Parameter(torch.full((1,), 3.0)), torch.tensor([5.0]), x).sum().backward()
            slopes.append(x.grad)
        assert torch.equal(*slopes)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_leaf_that_gets_its_old_data_back_before_gradients_are_asked_for(backend: str) -> None:
    """Autograd remembers the leaf, with the data it has then."""
    weight, x = torch.nn.Parameter(torch.tensor([1.0, 2.0])), torch.tensor([3.0, 4.0], requires_grad=True)

    def program(data: Any) -> Any:
        weight.data = data
        return (weight * weight * x).sum()

    found = []
    for run in (program, stator.compile(program, backend=backend)):
        for step in range(2):
            weight.grad = x.grad = None
            kept = weight.data
            loss = run(torch.tensor([5.0, 6.0]) + step)
            weight.data = kept
            loss.backward()
            found.append((loss.detach(), weight.grad, x.grad))
    for wanted, got in zip(found[:2], found[2:], strict=True):
        assert all(map(torch.equal, wanted, got))
