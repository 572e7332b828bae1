"""Hooks of modules: with keywords, on every way out, on gradients; gradients that tensors retain."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.harness import check


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Any, scale: float = 1.0, fails: bool = False) -> Any:
        if fails:
            raise ValueError("failed")
        return x * self.weight * scale


class Net(nn.Module):
    """Calls a part with hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Scaled()
        self.seen: list[str] = []

    def forward(self, x: Any) -> Any:
        y = self.part(x, scale=2.0)
        try:
            self.part(x, fails=True)
        except ValueError as error:
            self.seen.append(str(error))
        return y, len(self.seen)


def with_forward_hooks() -> Net:
    net = Net()
    net.part.register_forward_pre_hook(lambda m, a, k: (a, {**k, "scale": k.get("scale", 1.0) + 1}), with_kwargs=True)
    net.part.register_forward_hook(lambda m, a, k, out: out * k["scale"], with_kwargs=True)
    net.part.register_forward_hook(lambda m, a, out: net.seen.append("ran"), always_call=True)
    return net


def test_forward_hooks_run_on_every_way_out() -> None:
    mine, eager = with_forward_hooks(), with_forward_hooks()
    import stator

    compiled = stator.compile(mine, backend="eager", fullgraph=True)
    for _ in range(2):
        x = torch.randn(2, 3)
        got, wanted = compiled(x), eager(x)
        assert torch.equal(got[0], wanted[0]) and got[1] == wanted[1]
        assert mine.seen == eager.seen and mine.seen.count("ran") % 2 == 0


def seeing() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    net[0].register_full_backward_hook(lambda m, given, out: (given[0] * 2,))
    net[2].register_full_backward_pre_hook(lambda m, out: (out[0] * 3,))
    return net


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_hooks_of_modules(backend: str) -> None:
    torch.manual_seed(0)
    mine, eager = seeing(), seeing()
    eager.load_state_dict(mine.state_dict())
    import stator

    compiled = stator.compile(mine, backend=backend)
    for _ in range(2):
        x = torch.randn(2, 3, requires_grad=True)
        y = x.detach().requires_grad_()
        compiled(x).sum().backward()
        eager(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        for one, other in zip(mine.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
    assert stator.stats()["frames_skipped"] == 0


def retained(x: Any) -> Any:
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, x.sum()


def retained_over_a_break(x: Any) -> Any:
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    torch._dynamo.graph_break()
    return y.grad, y.grad_fn is None


def test_retained_gradients() -> None:
    check(retained, torch.randn(3, requires_grad=True), expect_graphs=1)
    x = torch.randn(3, requires_grad=True)
    check(retained_over_a_break, x, fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Looking(nn.Module):
    """Registers a hook for one call, or one that stays."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(3, 3)

    def forward(self, x: Any, stays: bool) -> Any:
        seen: list[Any] = []
        handle = self.part.register_forward_hook(lambda m, a, out: seen.append(out.sum()))
        y = self.part(x)
        if not stays:
            handle.remove()
        return y, seen


def test_hooks_for_one_call_are_compiled_once() -> None:
    import stator

    net = Looking()
    compiled = stator.compile(net, backend="eager", fullgraph=True)
    for _ in range(3):
        nn.Linear(1, 1).register_forward_hook(print)  # somebody else's
        x = torch.randn(2, 3)
        y, seen = compiled(x, False)
        assert torch.equal(y, net.part(x)) and torch.equal(seen[0], y.sum())
        assert not net.part._forward_hooks
    assert stator.stats()["graphs"] == 1
    before = torch.utils.hooks.RemovableHandle.next_id
    compiled(torch.randn(2, 3), True)
    assert list(net.part._forward_hooks) == [before]
    assert torch.utils.hooks.RemovableHandle.next_id == before + 1
