"""Compiled functions keep nothing of their inputs alive, and drop entries whose guarded objects died."""

from __future__ import annotations

import gc
import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import stator
from stator.eval import machine
from stator.guards.guardset import GuardSet
from stator.report import events
from stator.runtime import below, continuation

X = torch.ones(3)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit mode keeps every object alive for the time of a capture, pytest all that torch logs."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """What is there already is not looked through each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@stator.disable
def aside(x: Any) -> Any:
    return x


def compile(function: Callable[..., Any], **options: Any) -> Any:
    return stator.compile(function, **options)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))

    @property
    def twice(self) -> torch.Tensor:
        return self.shift * 2

    @staticmethod
    def same(x: Any) -> Any:
        return x

    def forward(self, x: torch.Tensor) -> Any:
        return self.same(self.linear(x) + self.twice)


def calls(net: Any, x: torch.Tensor) -> Any:
    return net(x) + 1


def breaks(net: Any, x: torch.Tensor) -> Any:
    y = net(x)
    aside([net, y])
    return net(y) * 2


def returns(net: Any, x: torch.Tensor) -> Any:
    return [net, x + 1]


def writes(net: Any, x: torch.Tensor) -> Any:
    net.seen = x + 1
    aside(x)
    net.seen = net.seen * 2
    return net.seen


USES = [calls, breaks, returns, writes]


def own_class() -> Any:
    """A class that nobody else has."""
    return type("Own", (Net,), {"forward": Net.forward})


def count(compiled: Any) -> int:
    return len(compiled.entries())


def watched(net: torch.nn.Module) -> list[weakref.ref[Any]]:
    return [weakref.ref(obj) for obj in (net, *net.parameters(), *net.buffers())]


def alive(references: list[weakref.ref[Any]]) -> list[Any]:
    gc.collect()
    return [type(obj) for reference in references if (obj := reference()) is not None]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("use", USES)
def test_argument(use: Callable[..., Any], backend: str) -> None:
    compiled = compile(use, backend=backend)
    net = Net()
    for _ in range(3):
        compiled(net, X)
    seen, before = watched(net), compiled.entries()
    del net
    assert not alive(seen)
    compiled(Net(), X)  # entries fit other instances of the class
    assert count(compiled) == len(before)


@pytest.mark.parametrize("use", USES)
def test_variable_of_an_outer_function(use: Callable[..., Any]) -> None:
    net: Any = Net()

    def program(x: torch.Tensor) -> Any:
        return use(net, x)

    compiled = compile(program, backend="eager")
    compiled(X)
    compiled(X)
    seen = watched(net)
    net = None
    assert not alive(seen)


NET: Any = None


@pytest.mark.parametrize("use", USES)
def test_global(use: Callable[..., Any]) -> None:
    global NET
    NET = Net()

    def program(x: torch.Tensor) -> Any:
        return use(NET, x)

    compiled = compile(program, backend="eager")
    compiled(X)
    compiled(X)
    seen = watched(NET)
    NET = None
    assert not alive(seen)


@pytest.mark.parametrize("use", USES)
def test_class(use: Callable[..., Any]) -> None:
    """Entries for a class go with it, and with them graph and continuations."""
    compiled = compile(use, backend="eager")
    cls = own_class()
    net = cls()
    compiled(net, X)
    compiled(net, X)
    seen = [weakref.ref(cls), *(weakref.ref(function) for _, function in compiled.entries()), *watched(net)]
    assert len(compiled.miss.__self__.entries) >= 1
    del net, cls
    gc.collect()
    compiled(Net(), X)  # a look-up drops them
    assert not alive(seen)
    assert count(compiled) == 1 == len(compiled.miss.__self__.entries)


def test_a_hit_drops_too() -> None:
    compiled = compile(calls, backend="eager")
    cls = own_class()
    compiled(cls(), X)
    compiled(Net(), X)
    function = weakref.ref(next(function for _, function in compiled.entries()[1:]))
    assert count(compiled) == 2
    del cls
    gc.collect()
    compiled(Net(), X)
    gc.collect()
    assert function() is None and len(compiled.miss.__self__.entries) == 1


def test_made_inside() -> None:
    """A class whose instances the entry function makes."""

    def program(cls: Any, x: torch.Tensor) -> Any:
        made = cls()
        made.y = x + 1
        aside(made)
        return made.y * 2

    compiled = compile(program, backend="eager")
    cls: Any = type("Made", (), {})
    compiled(cls, X)
    compiled(cls, X)
    seen = [weakref.ref(cls)]
    del cls
    gc.collect()
    assert count(compiled) == 0 and not alive(seen)


def test_new_objects_do_not_compile_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has a class of its own, which dies: the limit counts all captures."""
    monkeypatch.setattr("stator.runtime.cache.MOST_CAPTURES", 4)
    compiled = compile(calls, backend="eager", options={"recompile_limit": 1})
    session = compiled.miss.__self__
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(7):
            compiled(own_class()(), X)
            gc.collect()
    assert session.captures == 4
    assert len([one for one in said if "recompile_limit" in str(one.message)]) == 1


def test_after_the_limit_guards_are_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile(calls, backend="eager", options={"recompile_limit": 2})
    nets = [own_class()() for _ in range(4)]
    with pytest.warns(RuntimeWarning, match="recompile_limit"):
        for net in nets:
            compiled(net, X)

    def first_failure(*_: Any) -> None:
        raise AssertionError("guards are evaluated in Python")

    with monkeypatch.context() as patched:
        patched.setattr(GuardSet, "first_failure", first_failure)
        for net in nets * 3:
            assert torch.equal(compiled(net, X), calls(net, X))
    del net, nets[:2]
    gc.collect()
    compiled(nets[1], X)  # there is room again
    assert count(compiled) == 1


def test_classes_patched_and_put_back() -> None:
    """Their contents are remembered without keeping them alive."""
    cls = own_class()
    compiled = compile(calls, backend="eager")
    net = cls()
    compiled(net, X)
    for name, other in (("twice", property(lambda self: 0)), ("same", staticmethod(lambda x: x * 3))):
        real = Net.__dict__[name]
        setattr(Net, name, other)
        assert torch.equal(compiled(net, X), calls(net, X))
        setattr(Net, name, real)
        before = count(compiled)
        assert torch.equal(compiled(net, X), calls(net, X))
        assert count(compiled) == before
    seen = [weakref.ref(cls), *watched(net)]
    del net, cls
    gc.collect()
    assert count(compiled) == 0 and not alive(seen)


def test_iterators_that_are_others_each_time() -> None:
    """What can only be told apart is learned to vary, although nothing of it is left."""

    def program(steps: Any, x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = x + step
        return x

    compiled = compile(program, backend="eager")
    for size in (3, 3, 3, 3, 3, 3):
        assert torch.equal(compiled((i for i in range(size)), X), X + 3)
    assert compiled.miss.__self__.captures <= 3


def test_code_made_again_and_again() -> None:
    source = (
        "def made(x):\n    y = x + 1\n    for _ in range(2):\n        aside(y)\n        y = helper(y)\n    return y\n"
    )
    source += "def helper(y):\n    return y * 2\n"

    def sizes() -> tuple[int, ...]:
        events.reset()  # the latest of them name code objects
        gc.collect()
        return len(machine._infos), len(continuation._made), len(continuation._origins), len(events._codes)

    def cycle() -> weakref.ref[Any]:
        space: dict[str, Any] = {"aside": aside}
        exec(source, space)
        compiled = compile(space["made"], backend="eager")
        assert torch.equal(compiled(X), (X + 1) * 4)
        return weakref.ref(space["made"].__code__)

    cycle()
    before = sizes()
    seen = [cycle() for _ in range(5)]
    assert sizes() == before
    assert not alive(seen)


def test_code_below_a_break() -> None:
    @stator.disable(recursive=False)
    def run(function: Any, x: torch.Tensor) -> Any:
        return function(x)

    def program(function: Any, x: torch.Tensor) -> Any:
        return run(function, x + 1) * 2

    compiled = compile(program, backend="eager")
    session, seen = compiled.miss.__self__, []
    space: dict[str, Any] = {}  # a dict does not tell when it dies: guards keep it
    for _ in range(5):
        exec("def made(x):\n    return x * 3\n", space)
        assert torch.equal(compiled(space["made"], X), (X + 1) * 6)
        seen.append(weakref.ref(space.pop("made").__code__))
    events.reset()
    assert not alive(seen) and session.below == below.ALWAYS and not session.below.kept


def test_threads() -> None:
    """Eight threads call while classes die and come."""
    compiled = compile(breaks, backend="eager", options={"recompile_limit": 10**6})
    lasting, errors = Net(), []
    expected = breaks(lasting, X)

    def work() -> None:
        try:
            for _ in range(3):
                net = own_class()()
                net.load_state_dict(lasting.state_dict())
                for one in (net, lasting, net):
                    assert torch.equal(compiled(one, X), expected)
                del net, one
                gc.collect()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    gc.collect()
    assert torch.equal(compiled(lasting, X), expected)
    assert count(compiled) == 1
