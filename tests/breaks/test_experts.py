"""Mixtures of experts: loops that choose a module in each round, for as many rows as data says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.report import events

EXPERTS = 10


class Routed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, EXPERTS)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(EXPERTS))

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        mask = nn.functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        return self.mixed(x, weights, mask, torch.zeros_like(x))


class ByNumber(Routed):
    def mixed(self, x: Any, weights: Any, mask: Any, out: Any) -> Any:
        for i in range(EXPERTS):
            k, rows = torch.where(mask[i])
            if rows.shape[0] == 0:
                continue
            out.index_add_(0, rows, self.experts[i](x[rows]) * weights[rows, k, None])
        return out


class ByTensor(Routed):
    def mixed(self, x: Any, weights: Any, mask: Any, out: Any) -> Any:
        for i in (mask.sum((1, 2)) > 0).nonzero():
            k, rows = torch.where(mask[i[0]])
            out.index_add_(0, rows, self.experts[i[0]](x[rows]) * weights[rows, k, None])
        return out


class InTurn(Routed):
    def mixed(self, x: Any, weights: Any, mask: Any, out: Any) -> Any:
        for i, expert in enumerate(self.experts):
            rows = mask[i].sum(0).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * i)
        return out


@pytest.mark.parametrize("kind, most", [(ByNumber, 4), (ByTensor, 5), (InTurn, 4)])
def test_one_body_serves_all_experts(kind: Any, most: int) -> None:
    torch.manual_seed(0)
    module = kind()
    compiled = stator.compile(module, backend="eager")
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(16, 4)
            torch.testing.assert_close(compiled(x), module(x))
    assert stator.stats()["graphs"] <= most and not events.events("skip")


def test_a_few_modules_are_an_entry_each() -> None:
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def program(x: Any) -> Any:
        for i in range(4):
            x = layers[i](x).sin()
            stator.graph_break()
        return x

    compiled = stator.compile(program, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(4)), program(torch.ones(4)))
    assert {event.break_id for event in events.events("break")} == {"graph-break-requested"}


def test_whole_graphs_do_not_break_there() -> None:
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

    def program(x: Any, n: int) -> Any:
        return layers[n](x).sin()

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for n in range(6):
        torch.testing.assert_close(compiled(torch.ones(4), n), program(torch.ones(4), n))


class Odd:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> bool:
        raise AssertionError("nobody asks")

    def __call__(self, key: Any) -> Any:
        return key * 2


class Table:
    __getitem__ = Odd()


def test_methods_are_not_compared() -> None:
    table = Table()

    def program(x: Any) -> Any:
        return table[x] + 1  # type: ignore[index]

    compiled = stator.compile(program, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 3)
    assert stator.stats()["graphs"] == 1 and not events.events("break")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_as_many_rows_as_data_says_may_be_one(backend: str) -> None:
    weight = torch.randn(4, 4)

    def program(x: Any, mask: Any) -> Any:
        rows = mask.nonzero().squeeze(-1)
        if rows.numel() == 0:
            return x
        y = x[rows] @ weight
        return y, y.t().stride(), y * 2 if rows.numel() == 1 else y

    compiled = stator.compile(program, backend=backend)
    for count in (3, 1, 2, 0, 5, 1):
        x, mask = torch.randn(5, 4), torch.arange(5) < count
        torch.testing.assert_close(compiled(x, mask), program(x, mask))
