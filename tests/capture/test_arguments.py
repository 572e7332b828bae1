"""Arguments of compiled functions and modules are guarded only as far as the program looks at them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import stator
from tests.harness import check

X = torch.arange(3.0)


def ignored(x: Any, other: Any) -> Any:
    return x + 1


def handed_over(x: Any, other: Any) -> Any:
    y = x * 2
    stator.graph_break()
    return y if other is None else y + len(str(type(other)))


class Ignoring(nn.Module):
    def forward(self, x: Any, other: Any = None, *, note: Any = None) -> Any:
        return x + 1


KINDS = [{"a": 1}, {"b": 2}, "text", None, [X], Ignoring(), torch.int8, (1, 2), Ignoring]


@pytest.mark.parametrize("program", [ignored, Ignoring()])
def test_what_is_not_looked_at_is_not_guarded(program: Callable[..., Any]) -> None:
    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for kind in KINDS:
        assert torch.equal(compiled(X, kind), X + 1)
    assert stator.stats()["recompiles"] == 1


def test_what_is_looked_at_behind_a_break_is_guarded_there() -> None:
    stator.reset()
    compiled = stator.compile(handed_over, backend="eager")
    for kind in KINDS[:4]:
        assert torch.equal(compiled(X, kind), handed_over(X, kind))
    assert stator.stats()["graphs"] <= 4


class Growing(nn.Module):
    def forward(self, x: Any, log: Any, table: Any) -> Any:
        log.append(x.shape[0])
        table[len(table)] = x + len(log)
        return x * 2, log[-1]


def test_containers_given_to_a_module_may_grow() -> None:
    net, compiled = Growing(), stator.compile(Growing(), backend="eager")
    logs: Any = [], []
    tables: Any = {}, {}
    stator.reset()
    for i in range(8):
        x = X + i
        assert str(compiled(x, logs[0], tables[0])) == str(net(x, logs[1], tables[1]))
    assert logs[0] == logs[1] and str(tables[0]) == str(tables[1])
    assert stator.stats()["recompiles"] <= 2


def chosen(x: Any, how: str, names: Any) -> Any:
    return x.sin() if how == "sin" else x.cos(), names["scale"] if how == "scaled" else None


def test_what_changed_is_looked_at_all_the_same() -> None:
    calls = [(X, how, {"scale": i}) for i, how in enumerate(("sin", "cos", "scaled", "sin", "scaled", "cos"))]
    check(chosen, vary=calls, expect_recompiles=None)


class Changing(nn.Module):
    scale = 2

    def forward(self, x: Any) -> Any:
        return x * self.scale


def other_forward(self: Any, x: Any) -> Any:
    return x - 1


def test_what_leads_to_forward_is_guarded() -> None:
    net = Changing()
    compiled = stator.compile(net, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    net.forward = lambda x: x + 1  # type: ignore[method-assign]
    assert torch.equal(compiled(X), X + 1)
    del net.forward
    assert torch.equal(compiled(X), X * 2)
    handle = net.register_forward_hook(lambda module, args, result: result + 100)
    assert torch.equal(compiled(X), X * 2 + 100)
    handle.remove()
    everywhere = nn.modules.module.register_module_forward_hook(lambda module, args, result: result + 7)
    assert torch.equal(compiled(X), X * 2 + 7)
    everywhere.remove()
    net.__class__ = type("Other", (Changing,), {"forward": other_forward})
    assert torch.equal(compiled(X), X - 1)


class Warning_(nn.Module):
    def forward(self, x: Any) -> Any:
        for level in range(1, 6):
            warnings.warn(f"level {level}", stacklevel=level)
        return x + 1


def test_warnings_count_the_frames_between_call_and_forward() -> None:
    check(Warning_(), X)
    check(nn.Sequential(Warning_(), nn.Sequential(Warning_())), X)
