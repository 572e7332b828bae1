"""Kinds of custom autograd functions: contexts in closures, absent gradients, rules for `torch.func`."""

from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.harness import check


class Once(Function):
    """Saves a tensor for a backward that is not differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0].cos() * 3


class Many(Function):
    """Its context is in a cell of comprehensions."""

    @staticmethod
    def forward(ctx: Any, factor: Any, *tensors: Any) -> Any:
        ctx.factor = factor
        return tuple(x * ctx.factor for x in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *[grad * ctx.factor * 2 for grad in grads])


class Sparing(Function):
    """Takes None for a gradient nobody asked for; both are never None."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first * 5 if second is None else first * 2 + second


class Odd(Function):
    """Every rule does something of its own, so that one sees which one ran."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x: Any, factor: Any) -> Any:
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.factor * 10, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return tangent * ctx.factor * 100

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, factor: Any) -> Any:
        return Odd.apply(x, factor) + 7, in_dims[0]


class Plain(Odd):
    """Without a rule for vmap."""

    vmap = Function.vmap


def scaled(x: Any) -> Any:
    return Odd.apply(x, 3.0)


PROGRAMS: dict[str, Any] = {
    "once": lambda x: Once.apply(x).sum(),
    "many": lambda x: sum(Many.apply(2, x, x + 1)).sum(),
    "first only": lambda x: Sparing.apply(x)[0],
    "both": lambda x: sum(Sparing.apply(x)),
}
TRANSFORMED: dict[str, Any] = {
    "vmap": lambda x: torch.vmap(scaled)(x),
    "grad": lambda x: torch.func.grad(lambda y: scaled(y).sum())(x),
    "grads of a batch": lambda x: torch.vmap(torch.func.grad(lambda y: scaled(y).sum()))(x),
    "jvp": lambda x: torch.func.jvp(scaled, (x,), (x,)),
    "vjp": lambda x: torch.func.vjp(scaled, x)[1](x),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(name: str, backend: str) -> None:
    check(PROGRAMS[name], torch.randn(3, requires_grad=True), backward=True, backend=backend, expect_graphs=1)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_rules_run_under_transforms(name: str) -> None:
    check(TRANSFORMED[name], torch.randn(2, 3), expect_graphs=1)


def test_a_missing_rule_is_an_error_as_in_eager() -> None:
    check(
        lambda x: torch.vmap(lambda y: Plain.apply(y, 2.0))(x), torch.randn(2, 3), fullgraph=False, expect_breaks=None
    )


def test_a_backward_that_lacks_a_gradient_fails_when_it_runs() -> None:
    def second_only(x: Any) -> Any:
        y = Sparing.apply(x)[1].sum()
        try:
            return torch.autograd.grad(y, x)
        except TypeError as error:
            return str(error)

    check(second_only, torch.randn(3, requires_grad=True), fullgraph=False, expect_breaks=None)


kept: list[Any] = []


class Keeper(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        kept.append(ctx)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


def test_a_context_that_is_kept_is_torchs_own() -> None:
    def keeps(x: Any) -> Any:
        kept.clear()
        return Keeper.apply(x).sum(), type(kept[0]).__name__

    check(keeps, torch.randn(3, requires_grad=True), fullgraph=False, expect_breaks=None, backward=True)
