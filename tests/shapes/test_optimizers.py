"""A step under a changing learning rate and weight decay: two compilations, one graph, results to the last bit."""

from __future__ import annotations

import copy
import math
import sys

import pytest
import torch
from torch import optim

import stator

STEPS = 6


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 3), (5,), ())
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def set_gradients(params, seed):
    generator = torch.Generator().manual_seed(seed)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def image(optimizer):
    """Parameters and state in order."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    return params, [{name: value for name, value in optimizer.state[param].items()} for param in params]


class Counted:
    """A backend that keeps the graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph.forward

    def operations(self, number=-1):
        return [str(node.target) for node in self.graphs[number].graph.nodes if node.op.startswith("call")]


def train(make, change, steps=STEPS, compiles=2, dtype=torch.float32, backend=None, step=None, tolerance=0.0):
    """Both ways, step by step; gives the backend."""
    backend = backend or Counted()
    mine, theirs = (make(parameters(dtype)) for _ in range(2))
    body = step or (lambda optimizer: optimizer.step())
    compiled = stator.compile(body, backend=backend, fullgraph=True)
    for number in range(steps):
        for optimizer in (mine, theirs):
            set_gradients(image(optimizer)[0], number)
            change(optimizer, number)
        compiled(mine)
        body(theirs)
        torch.testing.assert_close(image(mine), image(theirs), rtol=tolerance, atol=tolerance)
    assert len(compiled.entries()) == compiles
    return backend


def vary(optimizer, number):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (number + 1)
        group["weight_decay"] = 0.01 * (number + 1)


ROWS = {
    "sgd": lambda p, f: optim.SGD(p, lr=0.1, weight_decay=0.1, foreach=f),
    "momentum": lambda p, f: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True, foreach=f),
    "adam": lambda p, f: optim.Adam(p, weight_decay=0.1, foreach=f),
    "amsgrad": lambda p, f: optim.Adam(p, weight_decay=0.1, amsgrad=True, foreach=f),
    "adamw": lambda p, f: optim.AdamW(p, foreach=f),
    "rmsprop": lambda p, f: optim.RMSprop(p, weight_decay=0.1, momentum=0.9, centered=True, foreach=f),
    "adagrad": lambda p, f: optim.Adagrad(p, lr_decay=0.1, weight_decay=0.1, foreach=f),
    "nadam": lambda p, f: optim.NAdam(p, weight_decay=0.1, foreach=f),
    "adafactor": lambda p, f: optim.Adafactor(p, weight_decay=0.1, foreach=f),
}
FUSED = {
    "adam": lambda p: optim.Adam(p, weight_decay=0.1, amsgrad=True, fused=True),
    "adamw": lambda p: optim.AdamW(p, maximize=True, fused=True),
    "a tensor as rate": lambda p: optim.Adam(p, lr=torch.tensor(0.1), fused=True),
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True, fused=True),
    "adagrad": lambda p: optim.Adagrad(p, lr_decay=0.1, weight_decay=0.1, fused=True),
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_optimizers(name, foreach):
    backend = train(lambda params: ROWS[name](params, foreach), vary)
    assert "copy_" not in "".join(backend.operations())


def vary_all(optimizer, number):
    """All numbers of a group, rates that are tensors in place."""
    for group in optimizer.param_groups:
        rate = group["lr"]
        vary(optimizer, number)
        if isinstance(rate, torch.Tensor):
            group["lr"] = rate.fill_(group["lr"])
        if "betas" in group:
            group["betas"] = 0.9 - 0.001 * number, 0.999 - 0.0001 * number


@pytest.mark.parametrize(
    ("name", "backend"), [*((name, None) for name in FUSED), ("adam", "aot_eager"), ("sgd", "aot_eager")]
)
def test_fused(name, backend):
    made = train(FUSED[name], vary_all, backend=backend, tolerance=0.0 if backend is None else 1e-6)
    if backend is None:
        assert "copy_" not in "".join(made.operations()) and len(made.operations(1)) <= len(made.operations(0))


def test_scaled_gradients():
    """A scaler asks whether a gradient is infinite: a break there, which costs no compilation for another rate."""

    def run(optimizer, scaler, x):
        loss = (optimizer.param_groups[0]["params"][0] * x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach(), norm, scaler.get_scale()

    compiled = stator.compile(run, backend="eager")
    made = []
    for _ in range(2):
        optimizer = optim.SGD(parameters(), lr=0.1)
        made.append((optimizer, torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)))
    for number in range(STEPS):
        x = torch.full((4, 3), math.inf if number == 3 else 1.0 + number)
        for optimizer, _ in made:
            vary(optimizer, number)
        mine, theirs = compiled(*made[0], x), run(*made[1], x)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(image(made[0][0]), image(made[1][0]), rtol=0, atol=0)
    assert len(compiled.entries()) == 2


@pytest.mark.parametrize("foreach", [False, True])
def test_a_way_that_depends_on_the_step(foreach):
    """After some steps RAdam calculates something else: an entry of its own, behind the ones before."""
    backend = train(lambda params: optim.RAdam(params, weight_decay=0.1, foreach=foreach), vary, steps=10)
    assert len(backend.graphs) == (2 if foreach else 3)


@pytest.mark.parametrize("foreach", [False, True])
def test_writes_through_masks(foreach):
    """Rprop, also for a parameter without dimensions."""
    train(lambda params: optim.Rprop(params, foreach=foreach), vary)


def test_averages():
    train(lambda params: optim.ASGD(params, weight_decay=0.1, foreach=False, t0=3), vary)


def test_fifty_values():
    train(lambda params: optim.AdamW(params), vary, steps=50)


def test_half_precision():
    train(lambda params: optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.1), vary, dtype=torch.bfloat16)


def test_a_tensor_as_rate():
    def change(optimizer, number):
        optimizer.param_groups[0]["lr"].fill_(0.1 / (number + 1))

    train(lambda params: optim.Adam(params, lr=torch.tensor(0.1), foreach=False), change)


@pytest.mark.parametrize("foreach", [False, True])
def test_aot_eager(foreach):
    train(lambda params: optim.Adam(params, foreach=foreach), vary, backend="aot_eager", tolerance=1e-6)


def test_a_capturable_optimizer():
    """Eager refuses it on a CPU; as a graph it is like any other."""
    torch.manual_seed(0)
    mine, theirs = optim.Adam(parameters(), capturable=True), optim.Adam(parameters())
    compiled = stator.compile(mine.step, backend="eager", fullgraph=True)
    for number in range(STEPS):
        for optimizer in (mine, theirs):
            set_gradients(image(optimizer)[0], number)
            vary(optimizer, number)
        compiled()
        theirs.step()
        torch.testing.assert_close(image(mine)[0], image(theirs)[0])
    assert len(compiled.entries()) == 2


@pytest.mark.parametrize("kind", ["cosine", "lambda", "onecycle"])
def test_schedulers(kind):
    schedulers = {
        "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 10),
        "lambda": lambda o: optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
        "onecycle": lambda o: optim.lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=20),
    }
    made = {}

    def change(optimizer, number):
        if number:
            made[id(optimizer)].step()

    def make(params):
        optimizer = optim.SGD(params, lr=0.1, momentum=0.9)
        made[id(optimizer)] = schedulers[kind](optimizer)
        return optimizer

    train(make, change, step=lambda optimizer: type(optimizer).step.__wrapped__(optimizer))


def test_hooks_run():
    def step(optimizer):
        optimizer.step()
        return optimizer.seen

    def make(params):
        optimizer = optim.SGD(params, lr=0.1)
        optimizer.seen = 0

        def count(optimizer, args, kwargs):
            optimizer.seen += 1

        optimizer.register_step_post_hook(count)
        return optimizer

    train(
        make,
        vary,
        step=step,
    )  # the count is a symbol too


def test_groups():
    def make(params):
        return optim.AdamW([{"params": params[:1], "lr": 0.3}, {"params": params[1:]}], lr=0.1)

    train(make, vary)


# ---- written by hand ------------------------------------------------------------------------------


def adam_step(params, grads, averages, squares, step, lr, decay, betas, eps):
    beta1, beta2 = betas
    correction1 = 1 - beta1**step
    correction2 = 1 - beta2**step
    size = lr / correction1
    for param, grad, average, square in zip(params, grads, averages, squares, strict=True):
        if decay != 0:
            grad = grad.add(param, alpha=decay)
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = (square.sqrt() / math.sqrt(correction2)).add_(eps)
        param.addcdiv_(average, denominator, value=-size)


def test_a_step_of_adam_written_by_hand():
    backend = Counted()
    compiled = stator.compile(adam_step, backend=backend, fullgraph=True)
    generator = torch.Generator().manual_seed(3)
    mine = [[torch.randn(shape, generator=generator).abs() for shape in ((3, 4), (7,))] for _ in range(4)]
    theirs = copy.deepcopy(mine)
    for step in range(1, 51):
        settings = 0.1 / step, 0.01 * step, (0.9 - step * 1e-3, 0.999 - step * 1e-4), 1e-8
        compiled(*mine, step, *settings)
        adam_step(*theirs, step, *settings)
        assert all(torch.equal(a, b) for xs, ys in zip(mine, theirs, strict=True) for a, b in zip(xs, ys, strict=True))
    assert len(compiled.entries()) == 2
    assert len(backend.operations(0)) == len(backend.operations(1))
    assert "copy_" not in "".join(backend.operations())


@pytest.mark.parametrize("foreach", [False, True])
def test_as_many_operations_as_with_constants(foreach):
    def make(params):
        optimizer = optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=foreach)
        set_gradients(params, 9)
        optimizer.step()  # so that there is state
        return optimizer

    backend = train(make, vary)
    assert len(backend.operations(0)) == len(backend.operations(1))


@pytest.mark.parametrize("foreach", [False, True])
def test_no_step_runs_in_cpython(foreach):
    """Numbers that are read from tensors made inside, as in the first step, need no tensor from outside."""
    counted = []

    def profile(frame, event, arg):
        if event == "call" and frame.f_code.co_filename == sys.modules[optim.Adam.__module__].__file__:
            counted.append(frame.f_code)

    optimizer = optim.Adam(parameters(), foreach=foreach)
    compiled = stator.compile(optimizer.step, backend="eager", fullgraph=True)
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = torch.ones_like(parameter)
    compiled()
    first = {id(p): p.detach().clone() for p in optimizer.param_groups[0]["params"]}
    optimizer.state.clear()
    sys.setprofile(profile)
    try:
        compiled()
    finally:
        sys.setprofile(None)
    assert not counted
    assert all(not torch.equal(first[id(p)], p) for p in optimizer.param_groups[0]["params"])


def test_rates_that_change_late() -> None:
    """The first step makes the state; the second compilation takes any rates, also if they stay the same at first."""

    def change(optimizer, number):
        for group in optimizer.param_groups:
            group["lr"], group["weight_decay"] = 0.1 * 0.5 ** (number // 3), 0.01 * (1 + number // 4)

    train(lambda p: optim.AdamW(p, lr=0.1), change, steps=9)
