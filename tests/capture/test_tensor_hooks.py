"""Hooks on tensors inside of compiled functions: they run in the backward that follows."""

import pytest
import torch
from torch import nn

import stator
from tests.harness import check


def scaled(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    return (y * y).sum()


def on_input(x):
    x.register_hook(lambda grad: grad + 1)
    return (x * x).sum()


def in_order(x):
    y = x * 2
    y.register_hook(lambda grad: grad + 1)
    y.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad - 5)
    return y.sum()


def closure(x):
    factor = torch.full((3,), 4.0)
    seen = []

    def hook(grad):
        seen.append(grad.sum())
        return grad * factor

    y = x.sin()
    y.register_hook(hook)
    return (y * y).sum()


def removed(x):
    y = x * 2
    handle = y.register_hook(lambda grad: grad * 100)
    z = y * 3
    handle.remove()
    return z.sum()


def before_a_break(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    if y.sum() > 1:
        y = y + 1
    return y.sum()


def inside(x):
    leaf = x.detach().requires_grad_()
    y = leaf * 2
    y.register_hook(lambda grad: grad * 3)
    y.sum().backward()
    return leaf.grad, x.sum()


def writes(x):
    leaf = x.detach().requires_grad_()
    y = leaf * 2
    y.register_hook(lambda grad: None if grad.mul_(3) is grad else grad)
    (y * torch.ones(3)).sum().backward()
    return leaf.grad, x.sum()


def written_later(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    y.add_(1)
    return (y * y).sum()


def no_grad(x):
    with torch.no_grad():
        y = x * 2
    try:
        y.register_hook(print)
    except RuntimeError as error:
        return x.sum(), str(error)


def kept(x):
    y = x * 2
    handle = y.register_hook(lambda grad: grad * 100)
    return y.sum(), handle


def looks(x):
    seen = []
    leaf = x.detach().requires_grad_()
    y = leaf * 2
    handle = y.register_hook(lambda grad: seen.append(grad * 10))
    z = y * y
    z.register_hook(lambda grad: seen.append(torch.is_grad_enabled()))
    z.sum().backward()
    handle.remove()
    return x.sum(), leaf.grad, seen


def several(x):
    """In the order of a backward, each on what the one before made of it; a tensor of the program is taken along."""
    factor = x.detach() + 1
    leaf = x.detach().clone().requires_grad_()
    leaf.register_hook(lambda grad: grad - 1)
    y = leaf * 2
    y.register_hook(lambda grad: grad * factor)
    y.register_hook(lambda grad: None)
    y.register_hook(lambda grad: grad.clamp(max=3))
    z = y * y
    z.register_hook(lambda grad: grad * 0.5)
    (z.sum() + leaf.sum()).backward()
    return x.sum(), leaf.grad


def retaining(x):
    leaf = x.detach().requires_grad_()
    y = leaf * 2
    y.register_hook(lambda grad: grad * 3)
    y.retain_grad()
    y.sum().backward()
    return x.sum(), leaf.grad, y.grad


def taken(x):
    leaf = x.detach().requires_grad_()
    y = leaf * 2
    handle = y.register_hook(lambda grad: grad * 3)
    found = torch.autograd.grad((y * y).sum(), [leaf, y], retain_graph=True)
    handle.remove()
    return x.sum(), found, torch.autograd.grad((y * y).sum(), [leaf, y])


def misshapen(x):
    leaf = x.detach().requires_grad_()
    y = leaf * 2
    y.register_hook(lambda grad: grad[0])
    try:
        y.sum().backward()
    except RuntimeError as error:
        return x.sum(), str(error)


WHOLE = [scaled, on_input, in_order, closure, removed, looks, several, taken]
PARTS = [before_a_break, inside, writes, written_later, no_grad, misshapen, retaining]


def gradient(program, x):
    x = x.clone().requires_grad_()
    result = program(x)
    loss = result if isinstance(result, torch.Tensor) else next(one for one in result if one.requires_grad)
    loss.backward()
    return loss.detach(), [] if isinstance(result, torch.Tensor) else result[1:], x.grad


@pytest.mark.parametrize("program", [*WHOLE, *PARTS], ids=lambda p: p.__name__)
def test_hooks_run_in_the_backward_that_follows(program):
    compiled = stator.compile(program, backend="eager", fullgraph=program in WHOLE)
    for number in range(3):
        x = torch.arange(3.0) + number
        assert str(gradient(compiled, x)) == str(gradient(program, x))


def test_a_handle_that_is_returned():
    compiled = stator.compile(kept, backend="eager")
    x = torch.ones(2, requires_grad=True)
    loss, handle = compiled(x)
    assert type(handle) is torch.utils.hooks.RemovableHandle
    handle.remove()
    loss.backward()
    assert x.grad.tolist() == [2, 2]


def test_retained_gradients():
    def program(x):
        y = x * 2
        y.retain_grad()
        x.retain_grad()
        return (y * y).sum(), y

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        x = torch.ones(2, requires_grad=True)
        loss, y = compiled(x)
        loss.backward()
        assert y.grad.tolist() == [4, 4] and y.retains_grad


def test_after_the_gradient_was_accumulated():
    layer, seen = nn.Linear(2, 2), []

    def program(x):
        layer.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad is not None))
        return layer(x).sum()

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    compiled(torch.ones(1, 2)).backward()
    assert seen == [True]


def test_backends_that_trace():
    x = torch.arange(3.0)
    for program in (on_input, taken):
        compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
        assert str(gradient(compiled, x)) == str(gradient(program, x))
    for program in (scaled, looks):
        compiled = stator.compile(program, backend="aot_eager")
        assert str(gradient(compiled, x)) == str(gradient(program, x))


def test_forward_hooks_that_hook_tensors():
    layer = nn.Linear(3, 3)
    found = {}

    def program(x):
        def keep(module, args, output):
            found["activation"] = output
            output.register_hook(lambda grad: found.__setitem__("gradient", grad))

        handle = layer.register_forward_hook(keep)
        result = layer(x).relu().sum()
        handle.remove()
        return result

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    expected = []
    for run in (program, compiled):
        found.clear()
        run(torch.ones(1, 3)).backward()
        expected.append(str(found))
    assert expected[0] == expected[1]


def test_state_nodes_and_gradients():
    def program(x):
        torch.manual_seed(2)
        with torch.backends.cudnn.flags(enabled=False):
            loss = (x * torch.rand(3)).sum()
        return torch.autograd.grad(loss, x)[0], torch.rand(2)

    check(program, torch.ones(3, requires_grad=True), expect_recompiles=None, expect_graphs=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_run_in_the_order_in_which_gradients_come(backend):
    """A trace would give all gradients at once."""

    def program(x, y):
        seen = []
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append("x"))
        y.register_post_accumulate_grad_hook(lambda leaf: seen.append("y"))
        ((x * 2) @ (y * 3)).sum().backward()
        return seen

    leaves = [torch.ones(2, 2, requires_grad=True) for _ in range(2)]
    check(program, *leaves, backend=backend, fullgraph=False, expect_breaks=None, calls=1)
