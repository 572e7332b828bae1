"""`torch.autograd.grad`, `backward` and training steps inside a captured program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.harness import check

both = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def draw(*shape: int, grad: bool = False) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), requires_grad=grad)


def simple(x: Any, w: Any) -> Any:
    loss = (x * w).sin().sum()
    (grad,) = torch.autograd.grad(loss, w)
    return grad * 2


def penalty(x: Any, w: Any) -> Any:
    """A gradient that is differentiated by the caller."""
    mixed = x.clone().requires_grad_(True)
    out = (mixed * w).tanh().sum(1)
    (grad,) = torch.autograd.grad(out, mixed, torch.ones_like(out), create_graph=True)
    return ((grad.norm(dim=1) - 1) ** 2).mean()


def unused(x: Any, w: Any) -> Any:
    first, second = torch.autograd.grad((x * w).sum(), [w, w.detach().requires_grad_()], allow_unused=True)
    return first, second is None


def by_name(x: Any, w: Any) -> Any:
    return torch.autograd.grad((x * w).sum(), {"w": w})


def twice(x: Any, w: Any) -> Any:
    y = (w**3).sum()
    (first,) = torch.autograd.grad(y, w, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), w)
    return first.detach(), second


def shared(x: Any, w: Any) -> Any:
    """Both gradients are the one that came in."""
    a, b = x.detach().requires_grad_(), x.clone().requires_grad_()
    given = torch.ones_like(x)
    first, second = torch.autograd.grad(a + b, (a, b), given)
    first.add_(1)
    return second, given


def attack(x: Any, w: Any) -> Any:
    x = x.detach().clone()
    for _ in range(2):
        x.requires_grad_(True)
        loss = (x * w).pow(2).sum()
        (grad,) = torch.autograd.grad(loss, x)
        x = (x + 0.1 * grad.sign()).detach()
    return x


@pytest.mark.parametrize("program", [simple, penalty, unused, by_name, twice, shared, attack])
@both
def test_grad(program: Any, backend: str) -> None:
    args = draw(3, 4), draw(4, grad=True)
    check(program, *args, backward=program is penalty, backend=backend, tolerance=1e-6, expect_graphs=1)


@both
def test_backward(backend: str) -> None:
    def program(x: Any, w: Any, b: Any) -> Any:
        loss = (x @ w + b).pow(2).mean()
        loss.backward()
        return loss.detach(), w.grad * 2

    check(
        program, draw(3, 4), draw(4, 2, grad=True), draw(2, grad=True), backend=backend, tolerance=1e-6, expect_graphs=1
    )


def test_gradients_are_added() -> None:
    w = draw(4, 2, grad=True)
    w.grad = draw(4, 2)
    kept = w.grad

    def program(x: Any) -> Any:
        (x @ w).sum().backward()
        (x @ w).pow(2).sum().backward()

    report = check(program, draw(3, 4), expect_graphs=1, tolerance=1e-5)
    assert report.gained("graph_breaks") == 0 and kept is w.grad


def test_layout_and_memory_of_gradients() -> None:
    def program(x: Any, a: Any, b: Any, c: Any) -> Any:
        (a + b + c.t()).sum().backward()
        a.grad.add_(1)
        return b.grad, c.grad.stride()

    args = [draw(3, 4, grad=True) for _ in range(2)]
    check(program, None, *args, draw(4, 3, grad=True), expect_graphs=1)


def test_inputs_given_gradient_and_retained_graph() -> None:
    def program(w: Any, v: Any) -> Any:
        y = w * v
        y.backward(torch.ones_like(y), retain_graph=True, inputs=[w])
        y.sum().backward()
        return w.grad.clone(), v.grad

    check(program, draw(3, grad=True), draw(3, grad=True), expect_graphs=1)


def test_a_leaf_made_inside_comes_out_with_its_gradient() -> None:
    def program(x: Any) -> Any:
        leaf = (x * 2).requires_grad_()
        (leaf**2).sum().backward()
        return leaf, leaf.grad + 1

    check(program, draw(3), expect_graphs=1)
    check(program, draw(3), backend="aot_eager", fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_requires_grad_that_only_a_leaf_inside_brings() -> None:
    def program(x: Any) -> Any:
        return x.clone().requires_grad_() * 2

    check(program, draw(3), expect_graphs=1)
    check(program, draw(3), backend="aot_eager", fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_requires_grad_of_an_argument() -> None:
    def program(x: Any) -> Any:
        x.requires_grad_(True)
        (grad,) = torch.autograd.grad(x.exp().sum(), x)
        return grad

    check(program, draw(3), expect_graphs=1)


def test_errors_are_those_of_eager() -> None:
    def freed(w: Any) -> Any:
        y = (w * w).sum()
        y.backward()
        y.backward()

    def without(x: Any) -> Any:
        return torch.autograd.grad(x.sum(), x)

    check(freed, draw(3, grad=True), fullgraph=False, expect_breaks=None, expect_recompiles=None)
    check(without, draw(3), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_history_outside_and_hooks_are_breaks() -> None:
    def program(h: Any) -> Any:
        (h * 2).sum().backward()

    compiled = stator.compile(program, backend="eager")
    w = draw(3, grad=True)
    compiled(w * 3)
    assert torch.equal(w.grad, torch.full((3,), 6.0))
    v = draw(3, grad=True)
    compiled(v)
    for _ in range(2):
        v.grad = None
        handle = v.register_hook(lambda grad: grad * 10)
        compiled(v)
        assert torch.equal(v.grad, torch.full((3,), 20.0))
        handle.remove()
        v.grad = None
        compiled(v)
        assert torch.equal(v.grad, torch.full((3,), 2.0))


OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "adam": lambda params: torch.optim.Adam(params, lr=1e-2),
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-2),
    "rmsprop": lambda params: torch.optim.RMSprop(params, lr=1e-2),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-2),
}


@pytest.mark.parametrize(("kind", "backend"), [*((kind, "eager") for kind in OPTIMIZERS), ("adam", "aot_eager")])
def test_training_step_is_one_graph(kind: str, backend: str) -> None:
    """Also in the long run: state that grows with the first step makes at most one more compilation."""

    def train(compile: Any) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = OPTIMIZERS[kind](model.parameters())

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        run = compile(step)
        losses = [run(draw(5, 3), torch.arange(5) % 2).detach() for _ in range(4)]
        return losses, [p.detach() for p in model.parameters()], [p.grad for p in model.parameters()]

    stator.reset()
    expected = train(lambda step: step)
    got = train(lambda step: stator.compile(step, backend=backend, fullgraph=True))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert stator.stats()["graphs"] <= 3


def test_a_break_inside_a_profiled_range() -> None:
    def program(x: Any) -> Any:
        with torch.autograd.profiler.record_function("range"):
            y = x * 2
            if y.sum() > 0:
                y = y + 1
        with torch.profiler.record_function("other"):
            return y * 3

    check(program, draw(3), fullgraph=False, expect_breaks=None, expect_recompiles=None)
    check(lambda x: program(x.abs()), draw(3), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_a_loss_whose_history_is_spent() -> None:
    """The trace of a step must not be differentiated again: the parameters have changed since."""

    def program(x: Any, w: Any) -> Any:
        hidden = x + w
        loss = (hidden * w).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        return loss, hidden

    for backend in ("eager", "aot_eager"):
        check(program, draw(3), draw(3, grad=True), backend=backend, tolerance=1e-6, expect_graphs=1)
        loss, hidden = stator.compile(program, backend=backend)(draw(3), w := draw(3, grad=True))
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        w.grad = None
        hidden.sum().backward()
        assert torch.equal(w.grad, torch.ones(3))


def refused_view() -> Any:
    """A view made without gradients, whose base gets a history later: nobody looks at it."""
    weight, kept = torch.ones(3, requires_grad=True), torch.zeros(3)

    def step(x: Any) -> Any:
        with torch.no_grad():
            kept[:2].add_(1)
            early = kept[:2]
        loss = (weight * x).sum()
        kept.copy_(weight * 2)
        loss.backward()
        with torch.no_grad():
            weight.sub_(weight.grad)  # type: ignore[arg-type]
        weight.grad = None
        return loss.item(), kept.detach().clone(), early.shape, loss

    return step


def test_views_that_autograd_refuses_are_no_leaves() -> None:
    check(refused_view(), torch.ones(3), backend="aot_eager", fullgraph=False, expect_breaks=0, calls=1)


def test_captures_that_fail_in_every_way_come_to_an_end(monkeypatch: Any) -> None:
    def fail(tensor: Any) -> Any:
        raise RuntimeError("on purpose")

    monkeypatch.setattr("stator.tensors.replay.is_open", fail)
    eager, compiled = refused_view(), stator.compile(refused_view(), backend="aot_eager")
    for _ in range(2):
        assert repr(eager(torch.ones(3))[:2]) == repr(compiled(torch.ones(3))[:2])


def chosen_part(x: Any, w: Any) -> Any:
    chances = (x @ w).softmax(-1)
    at = chances.sum(0).argmax().item()
    loss = chances[:, at].log().sum() + chances[-1, -at].exp() + chances[at : at + 1].sum()
    (grad,) = torch.autograd.grad(loss, w)
    return loss.detach(), grad, at


def written_part(x: Any, w: Any) -> Any:
    made, at = x @ w, int(x.sum()) % 3
    made = made * 1
    made[at] = 0
    made[at, 1] = w[at, 2] * 3
    return torch.autograd.grad(made.exp().sum(), w)


@both
@pytest.mark.parametrize("program", [chosen_part, written_part])
def test_parts_at_places_that_data_tells(program: Any, backend: str) -> None:
    x, w = draw(3, 3), draw(3, 3, grad=True)
    check(program, vary=[(x, w), (x.flip(0), -w), (x.abs() * 2, w)], backend=backend, tolerance=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_from_outside_see_gradients_that_are_asked_for(backend):
    def program(w, x, seen):
        seen.append("before")
        (grad,) = torch.autograd.grad((w * x).sum(), w)
        seen.append("after")
        return grad

    def run(function):
        w, seen = torch.ones(3, requires_grad=True), []
        w.register_hook(lambda grad: seen.append(grad.tolist()))
        return function(w, torch.arange(3.0), seen).tolist(), seen

    assert run(stator.compile(program, backend=backend)) == run(program)
