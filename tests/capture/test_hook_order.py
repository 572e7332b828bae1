"""Hooks of modules are known by their order: registered anew for each call, they are compiled once."""

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

import stator
from stator.native import hooked as hooked_calls
from tests.harness import check


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.second(self.first(x).tanh()) * scale


@contextmanager
def features(net: Any) -> Any:
    kept: dict[str, Any] = {}
    named = [(name, part) for name, part in net.named_modules() if isinstance(part, nn.Linear)]
    handles = [part.register_forward_hook(lambda m, i, o, name=name: kept.update({name: o})) for name, part in named]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def scaled(module: Any, args: Any, kwargs: Any) -> Any:
    return args, {**kwargs, "scale": kwargs.get("scale", 1.0) + 1}


REGISTER: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "after": lambda net, seen: [net.first.register_forward_hook(lambda m, i, o: seen.append(o))],
    "gives": lambda net, seen: [part.register_forward_hook(lambda m, i, o: o * 2) for part in net.modules()],
    "before": lambda net, seen: [net.first.register_forward_pre_hook(lambda m, i: i[0] + 1)],
    "keywords": lambda net, seen: [
        net.register_forward_pre_hook(scaled, with_kwargs=True),
        net.register_forward_hook(lambda m, i, o: o + 1),
        net.register_forward_hook(lambda m, i, k, o: o * k["scale"], with_kwargs=True, prepend=True),
    ],
    "of all modules": lambda net, seen: [
        register_module_forward_pre_hook(lambda m, i: (i[0] * 2,)),
        register_module_forward_hook(lambda m, i, o: seen.append(type(m).__name__)),
        net.first.register_forward_hook(lambda m, i, o: o - 1),
    ],
}


@pytest.mark.parametrize("register", REGISTER.values(), ids=REGISTER)
def test_registered_outside_for_each_call(register: Any) -> None:
    net = Net()
    compiled = stator.compile(net, backend="eager")
    for step in range(4):
        x = torch.full((2, 3), float(step))
        results = []
        for model in (net, compiled):
            seen: list[Any] = []
            handles = register(net, seen)
            results.append([model(x), *seen])
            for handle in handles:
                handle.remove()
        for wanted, got in zip(*results, strict=True):
            assert torch.equal(wanted, got) if isinstance(wanted, torch.Tensor) else wanted == got
    assert stator.stats()["frames_captured"] == 1
    assert torch.equal(compiled(x), net(x))


def test_registered_around_each_call_of_another_module() -> None:
    """As for models that are made anew, or of which there are many."""
    compiled = stator.compile(lambda net, x: net(x), backend="eager")
    for _ in range(3):
        net = Net()
        with features(net) as wanted:
            net(torch.ones(2, 3))
        with features(net) as got:
            compiled(net, torch.ones(2, 3))
        assert wanted.keys() == got.keys() and all(torch.equal(wanted[name], got[name]) for name in wanted)
    assert stator.stats()["frames_captured"] == 1


def test_another_order_and_other_flags_are_another_graph() -> None:
    net = Net()
    compiled = stator.compile(net, backend="eager")
    twice, more = (lambda m, i, *r: r[-1] * 2), (lambda m, i, *r: r[-1] + len(r))
    for hooks in [(twice, more), (more, twice)]:
        for flags in [(False, False), (True, False), (False, True)]:
            handles = [net.register_forward_hook(h, with_kwargs=f) for h, f in zip(hooks, flags, strict=True)]
            assert torch.equal(compiled(torch.ones(2, 3)), net(torch.ones(2, 3)))
            for handle in handles:
                handle.remove()


def test_behind_a_break_in_a_hook() -> None:
    net = Net()
    compiled = stator.compile(net, backend="eager")
    for step in range(4):
        x = torch.full((2, 3), float(step))
        results = []
        for model in (net, compiled):
            seen: list[Any] = []

            def hook(module: Any, args: Any, out: Any, seen: Any = seen) -> Any:
                stator.graph_break()
                seen.append(out.sum())
                return out * 2

            with net.first.register_forward_hook(hook), net.first.register_forward_hook(lambda m, i, o: o.sin()):
                results.append([model(x), *seen])
        assert all(map(torch.equal, *results))
    assert stator.stats()["graphs"] == 2


def test_on_a_module_that_ends_with_the_call() -> None:
    def program(x: Any) -> Any:
        part = nn.Linear(3, 3, bias=False)
        nn.init.ones_(part.weight)
        part.register_forward_hook(lambda m, i, o: o + part.in_features)
        return part(x)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        nn.Linear(1, 1).register_forward_hook(print)
        assert torch.equal(compiled(torch.ones(2, 3)), program(torch.ones(2, 3)))
    assert stator.stats()["frames_captured"] == 1


def hooked(part: Any, **how: Any) -> Net:
    net = Net()
    net.first.register_forward_hook(part, **how)
    return net


def fails(*_: Any) -> Any:
    raise ValueError("a hook")


def speaks(*_: Any) -> Any:
    for level in (1, 2, 3, 4):
        warnings.warn(f"from a hook {level}", stacklevel=level)


def ends(module: Any, args: Any, out: Any) -> Any:
    module.handle.remove()
    return out * 3


def test_what_hooks_do() -> None:
    def catches(net: Any, x: Any) -> Any:
        try:
            return net(x)
        except ValueError as error:
            return str(error), x * 2

    check(catches, hooked(fails), torch.ones(2, 3))
    check(lambda net, x: net(x), hooked(fails), torch.ones(2, 3))
    check(catches, hooked(speaks), torch.ones(2, 3))
    refused = Net()
    refused.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    check(lambda net, x: net(x), refused, torch.ones(2, 3))
    removing = Net()
    removing.first.handle = removing.first.register_forward_hook(ends)
    check(lambda net, x: (net(x), net(x)), removing, torch.ones(2, 3), calls=1)
    removing = Net()
    last = removing.first.register_forward_hook(lambda m, i, *r: r[-1] * len(r), with_kwargs=True)
    removing.first.register_forward_hook(lambda m, i, o: last.remove(), prepend=True)
    check(lambda net, x: (net(x), net(x)), removing, torch.ones(2, 3), calls=1)


@pytest.mark.parametrize("way", ["cleared", "removed"])
def test_flags_of_hooks_that_change_behind_a_break(way: str) -> None:
    """Whether a hook is given keyword arguments is asked when its turn comes, also between two breaks."""
    net = Net()
    net.first.seen = []
    handles = [
        net.first.register_forward_hook(lambda m, i, *r: m.seen.append(len(r)), with_kwargs=True) for _ in range(2)
    ]

    def ends(module: Any, args: Any, *rest: Any) -> Any:
        if rest[-1].sum() > -1e9:
            module._forward_hooks_with_kwargs.clear() if way == "cleared" else handles[0].remove()
        return rest[-1] + 1

    def run(net: Any, x: Any) -> Any:
        return net(x), net.first.seen

    net.first.register_forward_hook(ends, with_kwargs=True, prepend=True)
    check(run, net, torch.ones(2, 3), calls=3, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_what_is_said_of_a_hook_that_is_refused() -> None:
    """No hook is called to say it, such as one of all modules."""
    handle = register_module_forward_pre_hook(lambda m, i: (i[0] * 2,))
    try:
        with pytest.raises(RuntimeError, match="but got 3."):
            hooked_calls.refused(3)
    finally:
        handle.remove()


class Doubled(nn.Module):
    """Has something of its own between a call and forward."""

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return super()._call_impl(*args, **kwargs) * 2

    def forward(self, x: Any) -> Any:
        return x + 1


def test_a_call_that_a_class_or_module_has_replaced() -> None:
    check(lambda part, x: part(x), Doubled(), torch.ones(3))
    part = nn.ReLU()
    part._call_impl = lambda x: x * 7  # type: ignore[method-assign]
    check(lambda part, x: part(x), part, torch.ones(3))
    part = nn.ReLU()
    compiled = stator.compile(lambda x: part(x), backend="eager")
    assert compiled(torch.ones(3)).sum() == 3
    part._call_impl = lambda x: x * 7  # type: ignore[method-assign]
    assert compiled(torch.ones(3)).sum() == 21
