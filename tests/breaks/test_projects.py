"""What modules in the styles of other projects once did differently: hooks of old, shallow copies, gradients."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.report.events import recording


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.second(torch.tanh(self.first(x)))) * 2


class Broken(Two):
    def forward(self, x: Any) -> Any:
        x = self.first(x)
        stator.graph_break()
        return torch.relu(self.second(torch.tanh(x))) * 2


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.last = inner, nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.inner(x * 2)).sin()


class Many(nn.Module):
    """The same class with and without hooks, called behind a break."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Any) -> Any:
        stator.graph_break()
        return sum(part(x) for part in self.parts)


def hooked(module: nn.Module, seen: list[Any]) -> nn.Module:
    def hook(module: Any, inputs: Any, outputs: Any) -> None:
        seen.append([None if one is None else one.shape for one in (*inputs, *outputs)])

    module.register_backward_hook(hook)
    return module


HOOKED: list[Callable[[list[Any]], nn.Module]] = [
    lambda seen: hooked(Outer(Two()), seen),
    lambda seen: Outer(hooked(Two(), seen)),
    lambda seen: Outer(hooked(Broken(), seen)),
    lambda seen: Many(Two(), hooked(Two(), seen)),
    lambda seen: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), hooked(nn.Identity(), seen), nn.Linear(4, 2)),
]


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
@pytest.mark.parametrize("make", HOOKED)
def test_hooks_on_functions_of_autograd(make: Callable[[list[Any]], nn.Module]) -> None:
    """`register_backward_hook` shows the gradients of the last operation, not those of a whole graph."""
    rows = []
    for compiled in (False, True):
        torch.manual_seed(0)
        seen: list[Any] = []
        module: Any = make(seen)
        module = stator.compile(module, backend="aot_eager") if compiled else module
        for _ in range(2):
            module(torch.ones(2, 3)).sum().backward()
        rows.append(seen)
    assert rows[0] == rows[1]


def test_shallow_copies() -> None:
    """Torch asks for a fake mode when it copies a tensor; the class of fake modes counts what a backend does."""
    kept = torch.zeros(3)

    def program(x: Any) -> Any:
        kept.data = copy.copy(x.data)
        return x + kept

    stator.reset()
    compiled = stator.compile(program, backend="aot_eager")
    with recording("error") as errors:
        for _ in range(2):
            assert compiled(torch.ones(3)).tolist() == [2.0] * 3
    assert not errors


def test_gradient_of_no_leaf() -> None:
    """Whoever looks at it is warned, and nobody else looks."""

    def program(x: Any) -> Any:
        y = x * 2
        stator.graph_break()
        return y.sin() if y.grad is None else y

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            compiled(torch.ones(3, requires_grad=True))
        assert [row.filename for row in told if ".grad attribute" in str(row.message)] == [__file__]


def test_imports_below_a_break_run_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stator would need to capture a frame may be half imported."""
    text = "import torch\ndef made(x):\n    return x.sin() + x.cos()\nTABLE = made(torch.ones(3))\n"
    (tmp_path / "imported_late.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    @stator.disable(recursive=False)
    def table() -> Any:
        return importlib.import_module("imported_late").TABLE

    def program(x: Any) -> Any:
        return x * table()

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    expected = torch.ones(3).sin() + torch.ones(3).cos()
    assert torch.equal(compiled(torch.ones(3)), expected)
    assert [code.co_name for code in stator.stats()["captured_codes"]] == ["program"]


class Watching(torch.Tensor):
    asked: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Watching.asked.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_recompilation_does_not_ask_the_class_of_a_tensor() -> None:
    def program(x: Any) -> Any:
        return x * 2

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for size in (3, 4, 5):
        x = torch.ones(size).as_subclass(Watching)
        Watching.asked.clear()
        compiled(x)
        assert Watching.asked == ["mul"]
