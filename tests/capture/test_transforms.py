"""`torch.func` inside a captured program: one graph, with torch's own transform of the captured function as a node."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

import stator
from tests.harness import check


def r(*sizes: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*sizes, requires_grad=grad)


weight = r(4, 4, grad=True)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
params = dict(net.named_parameters())
frozen = {name: value.detach() for name, value in params.items()}
members = [nn.Linear(4, 2) for _ in range(3)]
stacked, buffers = stack_module_state(members)  # type: ignore[arg-type]
skeleton = copy.deepcopy(members[0]).to("meta")
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def program(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, args
        return function

    return register


@program(r(3, 4), r(5, 4))
def all_pairs(x: Any, y: Any) -> Any:
    return vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(x, y)


@program(r(3, 4))
def structures(x: Any) -> Any:
    pairs = vmap(lambda a: a.topk(2))(x)
    return vmap(lambda a: {"s": a.sum(), "p": (a, a * 2)}, in_dims=1, out_dims={"s": 0, "p": (1, 0)})(x), pairs


@program(r(3, 4, grad=True))
def closure(x: Any) -> Any:
    total = x.sum()
    return vmap(lambda a, scale=1.0: (a @ weight) * total * scale)(x, scale=2.0) + total


@program(r(3, 4), r(2, 4))
def sizes_that_do_not_fit(x: Any, y: Any) -> Any:
    try:
        return vmap(torch.dot)(x, y)
    except ValueError as error:
        return str(error), x * 2


@program(r(5, 4))
def random_numbers(x: Any) -> Any:
    different = vmap(lambda a: a + torch.rand(4), randomness="different")(x)
    return different, vmap(lambda a: F.dropout(a, 0.5), randomness="same")(x)


@program(r(3, 4))
def writes_to_its_own(x: Any) -> Any:
    def inner(a: Any) -> Any:
        made = torch.zeros_like(a)
        made[0] = a.sum()
        return made.add_(a)

    return vmap(inner, chunk_size=2)(x)


@program(r(4, 4, grad=True))
def values_and_gradients(x: Any) -> Any:
    def loss(a: Any, b: Any) -> Any:
        return (a.sin() * b * weight).sum(), {"twice": a * 2}

    return grad_and_value(loss, has_aux=True)(x, x * 2), grad(lambda a: grad(lambda b: (b**3).sum())(a).sum())(x)


@program(r(5, 4), r(5, 2))
def gradients_per_sample(x: Any, y: Any) -> Any:
    def loss(p: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(functional_call(net, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    return vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)


@program(r(5, 4))
def ensemble(x: Any) -> Any:
    def one(p: Any, b: Any, x: Any) -> Any:
        return functional_call(skeleton, (p, b), (x,))

    return vmap(one, in_dims=(0, 0, None))(stacked, buffers, x)


@program(r(3, 5, 4), r(3, 5, 2))
def meta_learning(xs: Any, ys: Any) -> Any:
    def task(x: Any, y: Any) -> Any:
        def loss(p: Any) -> Any:
            return F.mse_loss(functional_call(net, p, (x,)), y)

        found = grad(loss)(params)
        return loss({name: value - 0.1 * found[name] for name, value in params.items()})

    return vmap(task)(xs, ys).mean()


def at(p: Any, x: Any) -> Any:
    return functional_call(net, p, (x.unsqueeze(0),)).squeeze(0)


@program(r(3, 4), r(2, 4))
def tangent_kernel_by_products(x: Any, y: Any) -> Any:
    def entry(a: Any, b: Any) -> Any:
        value, pull = vjp(lambda p: at(p, a), frozen)
        basis = torch.eye(value.numel())
        return vmap(lambda v: jvp(lambda p: at(p, b), (frozen,), pull(v))[1])(basis)

    return vmap(vmap(entry, (None, 0)), (0, None))(x, y)


@program(r(4))
def jacobians(x: Any) -> Any:
    def inner(a: Any) -> Any:
        return a.sin() @ weight, a.cos()

    by_rows = jacrev(inner, has_aux=True)(x)
    return by_rows, jacfwd(inner, has_aux=True)(x), hessian(lambda a: inner(a)[0].pow(2).sum())(x)


@program(r(4), r(4))
def products(x: Any, v: Any) -> Any:
    value, push = linearize(lambda a: (a.sin(), a * 2), x)
    return value, push(v), jvp(grad(lambda a: (a.sin() ** 2).sum()), (x,), (v,))


@program(r(4))
def without_grad_mode(x: Any) -> Any:
    with torch.no_grad():
        return grad(lambda a: (a @ weight).sum())(x)


per_sample = vmap(grad(lambda p, x: at(p, x).sum()), in_dims=(None, 0))


@program(r(3, 4))
def made_outside(x: Any) -> Any:
    return per_sample(params, x), list(map(vmap(torch.sin), [x, x]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, args = PROGRAMS[name]
    check(function, *args, backward=True, tolerance=1e-5, expect_graphs=1)


@pytest.mark.parametrize("name", ["values_and_gradients", "random_numbers"])
def test_traced(name: str) -> None:
    function, args = PROGRAMS[name]
    check(function, *args, backward=True, tolerance=1e-5, expect_graphs=1, backend="aot_eager", strides=False)


def test_sizes_that_change() -> None:
    def function(x: Any) -> Any:
        return vmap(grad(lambda a: (a * x.shape[0]).sin().sum()))(x)

    check(function, vary=[(r(size, 4),) for size in (3, 5, 7)], calls=3, expect_recompiles=1, tolerance=1e-6)


def print_inside(x: Any) -> Any:
    def inner(a: Any) -> Any:
        print("inside")
        return a * 2

    return vmap(inner)(x) + 1


def keep_inside(x: Any) -> Any:
    kept: list[Any] = []
    return vmap(lambda a: kept.append(a * 2) or a)(x), len(kept)  # type: ignore[func-returns-value]


def write_to_argument(x: Any) -> Any:
    return vmap(lambda a: a.add_(1) * 2)(x), x


def branch_on_data(x: Any) -> Any:
    return vmap(lambda a: a if a.sum() > 0 else a * 2)(x)


def undeclared_randomness(x: Any) -> Any:
    return vmap(lambda a: a + torch.rand(4))(x)


def no_scalar(x: Any) -> Any:
    return grad(lambda a: a * 2)(x)


REFUSED = [print_inside, keep_inside, write_to_argument, branch_on_data, undeclared_randomness, no_scalar]


@pytest.mark.parametrize("function", REFUSED)
def test_left_to_eager(function: Any) -> None:
    check(function, r(3, 4), fullgraph=False, expect_breaks=None)


def test_function_that_leaves() -> None:
    x = r(3)
    _, pull = stator.compile(lambda x: vjp(torch.sin, x), backend="eager")(x)
    assert torch.equal(pull(x)[0], vjp(torch.sin, x)[1](x)[0])
