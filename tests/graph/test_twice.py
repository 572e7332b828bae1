"""Gradients of gradients of what a tracing backend compiled, taken outside of the compiled function."""

import copy

import pytest
import torch
from torch import nn

import stator
from stator.graph.steep import is_steep


def both(program, *models):
    """What the program does with the models, and with compiled copies of them: both in one list of tensors."""
    copies = copy.deepcopy(models)
    compiled = [stator.compile(model, backend="aot_eager") for model in copies]
    torch.manual_seed(0)
    expected = program(*models)
    torch.manual_seed(0)
    found = program(*compiled)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b)
    for model, other in zip(models, copies, strict=True):
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad)


def critic():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 1))


def test_gradient_penalty():
    def step(model):
        x = torch.randn(4, 6, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = ((slope.norm(dim=1) - 1) ** 2).mean() + model(torch.randn(5, 6)).mean()
        loss.backward()
        return [slope.detach(), loss.detach(), x.grad]

    both(step, critic())


def test_as_often_as_one_likes():
    def derivatives(function):
        x = torch.linspace(0.1, 1, 5, requires_grad=True)
        y, made = function(x), []
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            made.append(y.detach())
        return made

    class Cube(nn.Module):
        def forward(self, x):
            return x.sin() * x**3

    both(derivatives, Cube())


def test_one_of_several_results_and_inputs_from_before():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.idle = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

        def forward(self, x, y):
            return (x * self.weight).exp(), (y * self.idle).cos(), x.detach()

    def step(model):
        x = torch.randn(3, requires_grad=True)
        first, _, _ = model(x * 2, torch.randn(3))
        (slope,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        slope.square().sum().backward()
        return [slope.detach(), x.grad]

    both(step, Two())


def test_learning_to_learn():
    def step(model):
        weights = dict(model.named_parameters())
        loss = model(torch.randn(4, 6)).square().mean()
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        total = sum((value - 0.1 * slope).square().sum() for value, slope in zip(weights.values(), slopes))
        total.backward()
        return [total.detach()]

    both(step, critic())


@pytest.mark.parametrize("compiled", [False, True])
def test_an_input_that_was_written_to(compiled):
    def program(x, y):
        return (x * y).sin()

    function = stator.compile(program, backend="aot_eager") if compiled else program
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    made = function(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(made.sum(), x, create_graph=True)


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_autocast_is_as_it_was(forward, backward):
    def step(model):
        x = torch.randn(4, 6, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=forward):
            made = model(x)
        with torch.autocast("cpu", torch.bfloat16, enabled=backward):
            (slope,) = torch.autograd.grad(made.sum(), x, create_graph=True)
        slope.square().sum().backward()
        return [made.detach(), slope.detach(), x.grad]

    both(step, nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)))


def test_effects_are_not_repeated():
    """Rather no second gradient than numbers that are drawn again, or functions of the program called again."""
    calls = []

    @torch.compiler.allow_in_graph
    def told(x):
        calls.append(1)
        return x * 2

    def drawing(x):
        return torch.dropout(x * x, 0.5, True)

    def telling(x):
        return told(x * x)

    for program in (drawing, telling):
        x = torch.ones(3, requires_grad=True)
        made = stator.compile(program, backend="aot_eager")(x)
        before = torch.get_rng_state(), len(calls)
        with pytest.raises(RuntimeError, match="does not currently support double backward"):
            torch.autograd.grad(torch.autograd.grad(made.sum(), x, create_graph=True)[0].sum(), x)
        assert torch.equal(before[0], torch.get_rng_state())
        assert before[1] == len(calls)


def test_a_pass_keeps_the_graph_behind_one_that_does_not():
    def step(model):
        losses = []
        for keep in (False, True, True):
            loss = model(torch.randn(4, 6)).square().sum()
            loss.backward(retain_graph=keep)
            if keep:
                loss.backward()
            losses.append(loss.detach())
        return losses

    both(step, critic())


def test_an_input_that_was_made_of_another_input():
    def program(x, w):
        y = x * w.sin()
        stator.graph_break()
        return (y * w).sum()

    def slopes(function):
        x, w = torch.tensor([0.5, 1.0]), torch.tensor([0.5, 2.0], requires_grad=True)
        (first,) = torch.autograd.grad(function(x, w), w, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), w)
        return first.detach(), second

    for mine, theirs in zip(slopes(stator.compile(program, backend="aot_eager")), slopes(program), strict=True):
        torch.testing.assert_close(mine, theirs)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def through_a_custom_function(x):
    return Product.apply(x.sin(), x)


def next_to_a_constant(x):
    with torch.no_grad():
        scale = x.norm()
    return x.sin() * x / scale


def under_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = x[None] @ x[:, None]
    return y.float() * x


@pytest.mark.parametrize("program", [through_a_custom_function, next_to_a_constant, under_autocast])
def test_modes_that_change_inside(program):
    def slopes(function):
        x = torch.tensor([0.5, 2.0], requires_grad=True)
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        return first.detach(), second

    for mine, theirs in zip(slopes(stator.compile(program, backend="aot_eager")), slopes(program), strict=True):
        torch.testing.assert_close(mine, theirs)


def steep(x):
    return x.sum(), x.sqrt()


def steep_behind_a_break(x):
    y = x * 2
    stator.graph_break()
    return (x * y).sum(), y.log()


def steep_before_a_write(x):
    made, y = x.new_zeros(2, 2), x * 2
    z = y.log()
    stator.graph_break()
    made[0] = y
    return made, z * 3


@pytest.mark.parametrize("program", [steep, steep_behind_a_break, steep_before_a_write])
def test_no_zeros_times_infinite_slopes(program):
    def slope(function):
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        result = function(x)
        (result if isinstance(result, torch.Tensor) else result[0]).sum().backward()
        return x.grad

    compiled = stator.compile(program, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(slope(compiled), slope(program))


@pytest.mark.parametrize(
    ("program", "steep"),
    [
        (lambda x: x.sqrt(), True),
        (lambda x: torch.pow(x, 0.5), True),
        (lambda x: x / x.sum(), True),
        (lambda x: torch.linalg.vector_norm(x), True),
        (lambda x: x * torch.rsqrt(x.pow(2).mean() + 1e-6), False),
        (lambda x: torch.softmax(x / 8, 0) @ x, False),
        (lambda x: torch.nn.functional.layer_norm(x, (2,)), False),
    ],
)
def test_where_slopes_may_be_infinite(program, steep):
    seen = []
    stator.compile(program, backend=lambda graph, inputs: seen.append(is_steep(graph.graph)) or graph.forward)(
        torch.rand(2)
    )
    assert seen == [steep]
