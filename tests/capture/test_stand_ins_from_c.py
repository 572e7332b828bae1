"""Functions of torch that are taken over wherever they are called: C code may be what calls them."""

from functools import partial

import torch

from tests.harness import check


class Scaled(torch.autograd.Function):
    """A product whose gradient is ten times what it should be."""

    @staticmethod
    def forward(ctx, x, factor=2):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor * 10, None


class Checked(torch.autograd.Function):
    """Refuses some factors."""

    @staticmethod
    def forward(ctx, x, factor):
        if factor < 0:
            raise ValueError(f"factor {factor}")
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


scaled = partial(Scaled.apply)


def leaf(*size):
    return torch.linspace(-1, 2, 6).reshape(size).requires_grad_()


def test_a_partial_of_a_custom_function():
    def run(x):
        return scaled(x, 3).sin() + partial(Scaled.apply, x)(4)

    check(run, leaf(2, 3), backward=True)


def test_a_custom_function_is_mapped():
    def run(x):
        return sum(map(Scaled.apply, x.unbind(0), (3, 5)))

    check(run, leaf(2, 3), backward=True)


def test_it_raises_below_a_partial():
    def run(x, factor):
        try:
            return partial(Checked.apply, x)(factor)
        except ValueError as error:
            return str(error), x * 2

    check(run, leaf(2, 3), -1, backward=True)
    check(lambda x: partial(Checked.apply, x)(-2), leaf(2, 3))


def test_a_partial_of_grad():
    gradient = partial(torch.autograd.grad, create_graph=True)

    def run(x):
        (first,) = gradient((x**3).sum(), x)
        (second,) = gradient(first.sum(), x)
        return first, second

    check(run, leaf(2, 3))


def test_losses_go_backward_one_by_one():
    def run(x):
        losses = [(x * 2).sum(), (x**2).sum()]
        list(map(torch.Tensor.backward, losses))
        partial(torch.autograd.backward, [x.sum()])()
        return x.grad * 2

    check(run, leaf(2, 3))


def test_hooks_are_set_by_map():
    def run(x):
        y = x * 2
        list(map(y.register_hook, [lambda grad: grad * 3]))
        return y.sum()

    check(run, leaf(2, 3), backward=True)
