"""Custom autograd functions inside a captured program: one graph, gradients as in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import stator
from tests.harness import check

BACKENDS = ["eager", "aot_eager"]
both = pytest.mark.parametrize("backend", BACKENDS)


def leaf(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), requires_grad=True)


class Reversal(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, alpha: float) -> Any:
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.neg() * ctx.alpha, None


class Swish(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s * (1 + x * (1 - s)))


class Round(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class Identity(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3


class Linear(Function):
    """Gradients only for what needs one."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        ctx.save_for_backward(x, weight, bias)
        out = x.mm(weight.t())
        return out if bias is None else out + bias.unsqueeze(0).expand_as(out)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight, bias = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            grad.mm(weight) if needs[0] else None,
            grad.t().mm(x) if needs[1] else None,
            grad.sum(0) if bias is not None and needs[2] else None,
        )


class Clipped(Function):
    """Writes to the gradient it is given; saves an intermediate as an attribute."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mask = x.abs() > 1
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad[ctx.mask] = 0
        return grad


class TopTwo(Function):
    """Several results, one of them not differentiable, and one that is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        values, indices = x.topk(2)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values, indices, "two"

    @staticmethod
    def backward(ctx: Any, grad: Any, _indices: Any, nothing: Any) -> Any:
        assert nothing is None
        (indices,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(-1, indices, grad)


class Cube(Function):
    """Context set up apart from forward; the result of forward is saved as well."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Any, grad_slope: Any) -> Any:
        x, slope = ctx.saved_tensors
        return grad * slope + grad_slope * 6 * x


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.no_grad():
            return grad * 2


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class Scaled(Function):
    """A module among the arguments: its parameter is no input of the function."""

    @staticmethod
    def forward(ctx: Any, x: Any, module: Any) -> Any:
        ctx.module = module
        return module(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad @ ctx.module.weight, None


def reverses(x: Any, alpha: float) -> Any:
    return Reversal.apply(Swish.apply(x * 2), alpha) + 1


def rounds(x: Any) -> Any:
    return Round.apply(x * 3) * 2 + Identity.apply(x)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    return Linear.apply(x, weight, bias) + Linear.apply(x, weight)


def clips(x: Any) -> Any:
    return Clipped.apply(x * 2) * 3


def picks(x: Any) -> Any:
    values, indices, name = TopTwo.apply(x)
    return values * 2, indices, name, indices.requires_grad


def cubes(x: Any) -> Any:
    y, slope = Cube.apply(x)
    return y.sum() + slope.sum()


def once(x: Any) -> Any:
    return Once.apply(x).sum()


def swish_alias(x: Any, apply: Any = Swish.apply) -> Any:
    return apply(x) + apply(x * 2)


@pytest.mark.parametrize(
    ("program", "args"),
    [
        (reverses, (leaf(3, 4), 0.5)),
        (rounds, (leaf(3, 4),)),
        (linear, (leaf(3, 4), leaf(2, 4), leaf(2))),
        (linear, (leaf(3, 4).detach(), leaf(2, 4), leaf(2))),
        (clips, (leaf(3, 4),)),
        (picks, (leaf(3, 4),)),
        (cubes, (leaf(3),)),
        (once, (leaf(3),)),
        (swish_alias, (leaf(3),)),
    ],
)
@both
def test_gradients(program: Any, args: Any, backend: str) -> None:
    check(program, *args, backward=True, backend=backend, tolerance=1e-6, expect_graphs=1)


@pytest.mark.parametrize("program", [rounds, clips, picks, cubes, once])
def test_without_gradients(program: Any) -> None:
    check(program, leaf(3, 4).detach(), expect_graphs=1)

    def under_no_grad(x: Any) -> Any:
        with torch.no_grad():
            return program(x)

    check(under_no_grad, leaf(3, 4), expect_graphs=1)


def test_inductor() -> None:
    check(reverses, leaf(3, 4), 0.5, backward=True, backend="inductor", tolerance=1e-5, expect_graphs=1)


@both
def test_argument_written_to(backend: str) -> None:
    def program(x: Any) -> Any:
        y = x * 3
        z = Doubled.apply(y)
        return z.sum() + y.sum(), z is y

    check(program, leaf(3), backward=True, backend=backend, expect_graphs=1)


@both
def test_parameters_that_are_no_arguments(backend: str) -> None:
    module = nn.Linear(3, 3)

    def program(x: Any) -> Any:
        return Scaled.apply(x, module).sum()

    check(program, leaf(2, 3), backward=True, backend=backend, tolerance=1e-6, expect_graphs=1)


def test_name_of_grad_fn_and_second_derivative() -> None:
    def program(x: Any) -> Any:
        return Swish.apply(x)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = leaf(4)
    for call in (program, compiled):
        y = call(x)
        assert y.grad_fn.name() == "SwishBackward"
    first, second = [], []
    for call in (program, compiled):
        (grad,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        first.append(grad)
        second.append(torch.autograd.grad(grad.sum(), x)[0])
    torch.testing.assert_close(first[0], first[1])
    torch.testing.assert_close(second[0], second[1])


def test_expanded_gradients() -> None:
    class Flat(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return x.reshape(-1)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.contiguous().view(ctx.shape)

    def program(x: Any) -> Any:
        return Flat.apply(x)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = leaf(3, 4)
    compiled(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 4))


def test_sizes_that_change() -> None:
    def program(x: Any) -> Any:
        return (Clipped.apply(x) * x).sum() + Swish.apply(x * x.shape[0]).sum()

    sizes = [(leaf(n, 4),) for n in (2, 3, 5, 7)]
    check(program, vary=sizes, backward=True, expect_recompiles=1, tolerance=1e-6)


calls: list[int] = []
seen: dict[str, Any] = {}


class Noisy(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        calls.append(1)
        return grad * 2


class Prints(Noisy):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        print("backward", grad.shape)
        return grad * 2


class Keeps(Noisy):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        seen["ctx"] = ctx
        return x * 2


class Fails(Noisy):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise ValueError("no gradient")


class FromContext(Function):
    """Writes into a list of the program at backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, log: Any) -> Any:
        ctx.log = log
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.log.append("backward")
        return grad * 2, None


class Buffered(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, buffer: Any) -> Any:
        ctx.buffer = buffer
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.buffer.add_(1)
        return grad * 2, None


@pytest.mark.parametrize("function", [Noisy, Prints, Keeps, Fails])
def test_what_a_graph_cannot_say_is_a_break(function: Any) -> None:
    def program(x: Any) -> Any:
        return function.apply(x + 1) * 3

    report = check(program, leaf(3), fullgraph=False, expect_breaks=None, expect_recompiles=None, globals=())
    assert report.gained("graph_breaks") >= 1
    seen.clear()


class SavesWhatItReturns(Function):
    """Autograd refuses to save an argument that comes back as it was, where the context is set up separately."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_argument_that_is_saved_and_returned(backend: str) -> None:
    def program(x: Any) -> Any:
        try:
            return SavesWhatItReturns.apply(x * 2)
        except RuntimeError as error:
            return str(error)

    check(program, leaf(3), backend=backend, fullgraph=False, expect_breaks=None)


def test_effects_of_backward_happen_then() -> None:
    def program(x: Any) -> Any:
        log: list[str] = []
        return FromContext.apply(x + 1, log) * 3, log

    compiled = stator.compile(program, backend="eager")
    y, log = compiled(leaf(3))
    assert log == []
    y.sum().backward()
    assert log == ["backward"]


def test_a_list_from_outside_that_grows_between_two_of_them() -> None:
    trace: list[Any] = []

    def program(x: Any) -> Any:
        for k in range(3):
            trace.append(k)
            x = Reversal.apply(x + 1, 0.5)
        return x

    check(program, leaf(3), calls=4, backward=True, expect_recompiles=1)


def test_writes_to_other_tensors_in_backward() -> None:
    def program(x: Any, buffer: Any) -> Any:
        return Buffered.apply(x + 1, buffer) * 3

    check(program, leaf(3), torch.zeros(3), fullgraph=False, backward=True, expect_breaks=None, expect_recompiles=None)


def test_a_function_defined_inside() -> None:
    def program(x: Any, scale: float) -> Any:
        class Inner(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * scale

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * scale

        return Inner.apply(x).sum()

    check(program, leaf(3), 2.5, backward=True, fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Outer(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return Swish.apply(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            factor = x + 1
        return Identity.apply(grad) * Swish.apply(x) * factor


def test_functions_that_use_each_other() -> None:
    def program(x: Any) -> Any:
        return Outer.apply(x).sum()

    check(program, leaf(3), backward=True, expect_graphs=1)
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    second = []
    for call in (program, compiled):
        x = leaf(3)
        (grad,) = torch.autograd.grad(call(x), x, create_graph=True)
        second.append(torch.autograd.grad((grad * grad).sum(), x)[0])
    torch.testing.assert_close(second[0], second[1])


def test_mixed_precision_decorators() -> None:
    class Mixed(Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Any) -> Any:
            x, weight = ctx.saved_tensors
            return grad @ weight.t(), x.t() @ grad

    def program(x: Any, weight: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return Mixed.apply(x, weight).float().sum()

    check(program, leaf(3, 4), leaf(4, 2), backward=True, expect_graphs=1)


class Straight(Function):
    """Saves a tensor that backward does not ask for."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@pytest.mark.parametrize("function", [Straight, Round, Swish])
def test_backward_a_second_time(function: Any) -> None:
    """It may run again unless it asks for saved tensors, which are gone then."""

    def program(x: Any) -> Any:
        return function.apply(x).sum()

    def twice(call: Any) -> Any:
        x = torch.tensor([1.2, 2.6], requires_grad=True)
        loss = call(x)
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error)
        return x.grad.tolist()

    assert twice(stator.compile(program, backend="eager")) == twice(program)
