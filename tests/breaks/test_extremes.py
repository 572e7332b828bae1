"""`max` and `min` of tensors are part of the graph, and what comes out is one of these very tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator
from tests.breaks.counting import graphs_and_breaks
from tests.harness import check

A, B = torch.tensor(1.0), torch.tensor(2.0)
NAN = torch.tensor(float("nan"))
FREE: Any = {"fullgraph": False, "expect_breaks": None, "expect_recompiles": None}
PAIRS = [(A, B), (B, A), (A, A.clone()), (NAN, A), (A, NAN)]


def calculated(a: Any, b: Any) -> Any:
    return max(a, b) * 2, min(a * 2, b + 1, a + b) - 1


def returned(a: Any, b: Any) -> Any:
    return max(a, b), a, b, min([a, b])


def made(a: Any, b: Any) -> Any:
    c, d = a * 3, b + 1
    return max(c, d), c, d


def generated(a: Any, b: Any) -> Any:
    return max(x + 1 for x in (a, b, a * b)) * 2


def whole(a: Any, b: Any) -> Any:
    return max(a > 1, b > 1), min((a * 2).long(), b.long())


def kept(a: Any, b: Any) -> Any:
    found = {"best": a}
    for other in (b, a + b, a - b):
        found["best"] = max(found["best"], other)
    return found, found["best"] is not None


WHOLE = [calculated, returned, made, generated, whole, kept]


@pytest.mark.parametrize("program", WHOLE)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph(program: Any, backend: str) -> None:
    check(program, vary=PAIRS, backend=backend)


def identity(a: Any, b: Any) -> Any:
    c = max(a, b)
    return c is a, c is b


def addresses(a: Any, b: Any) -> Any:
    return id(max(a, b)) == id(a), hash(max(a, b)) == hash(b)


def keys(a: Any, b: Any) -> Any:
    found = {max(a, b): 1}
    return found.get(a), found.get(b)


def written(a: Any, b: Any) -> Any:
    c = max(a, b)
    c += 1
    return c * 2


def written_elsewhere(a: Any, b: Any) -> Any:
    c = max(a, b)
    a.add_(5)
    return c * 2


def viewed(a: Any, b: Any) -> Any:
    return max(a, b).view(1), max(a, b).detach()


def adorned(a: Any, b: Any) -> Any:
    max(a, b).name = "best"
    return getattr(a, "name", None), getattr(b, "name", None)


def shared(a: Any, b: Any) -> Any:
    array = max(a, b).numpy()
    array += 1
    return a * 1, b * 1


def other_types(a: Any, b: Any) -> Any:
    return max(a, b.long()), max(a, 1.5), max(a[None], b[None]), max([a, b], key=lambda x: -x)


@pytest.mark.parametrize("program", [identity, addresses, keys, written, written_elsewhere, viewed, adorned, shared])
def test_what_would_tell_is_a_break(program: Any) -> None:
    check(program, vary=PAIRS[:3], **FREE)


def test_other_types() -> None:
    check(other_types, vary=PAIRS[:3], **FREE)


def leaf() -> torch.Tensor:
    return torch.tensor([1.0, -2.0], requires_grad=True)


def losses(x: Any) -> Any:
    return max((x * x).sum(), (x * 3).sum(), x.exp().sum())


def scaled(x: Any) -> Any:
    return losses(x) * 2


def stepped(x: Any) -> Any:
    losses(x).backward()
    return x.grad


@pytest.mark.parametrize("program", [losses, scaled, stepped])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_reach_the_chosen_one_only(program: Any, backend: str) -> None:
    check(program, leaf(), backend=backend, backward=program is not stepped, **FREE)


def test_losses_that_come_out_are_no_break() -> None:
    assert graphs_and_breaks(losses, [(leaf(),), (-leaf(),)]) == (1, 0)


def test_nothing_flows_to_the_others() -> None:
    def program(x: Any, y: Any) -> Any:
        return max(x.sqrt(), y * 2)

    for compiled in (program, stator.compile(program, backend="eager")):
        x, y = (torch.tensor(value, requires_grad=True) for value in (0.0, 1.0))
        compiled(x, y).backward()
        assert x.grad is None and y.grad == 2


def test_state() -> None:
    class Meter:
        def __init__(self) -> None:
            self.best = torch.tensor(0.0)

        def __call__(self, x: Any) -> Any:
            self.best = max(self.best, x.sum())
            return self.best * 2

    check(Meter(), vary=[(A,), (B,), (A,)])
