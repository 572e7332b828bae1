"""Loops that would make a graph too large go on behind breaks: graphs do not grow with the number of rounds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator
from stator.runtime import unrolling


def model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 1)
    return layer, torch.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)


def epoch(layer: Any, optimizer: Any, data: Any) -> list[float]:
    losses = []
    for x in data:
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def graphs_of_epochs(rounds: int) -> list[int]:
    """The sizes of the graphs for two epochs of so many rounds, which give what they do without compiling."""
    sizes: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        sizes.append(len(graph.graph.nodes))
        return graph

    data = [torch.randn(5, 4) for _ in range(rounds)]
    plain, compiled = model(), model()
    run = stator.compile(epoch, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(run(*compiled, data), epoch(*plain, data))
    torch.testing.assert_close(list(compiled[0].parameters()), list(plain[0].parameters()))
    return sizes


def test_epochs() -> None:
    few, many = graphs_of_epochs(21), graphs_of_epochs(39)  # both end in the middle of a stretch
    assert len(many) <= len(few) and max(many) <= max(few)


def test_short_loops_are_one_graph() -> None:
    assert len(graphs_of_epochs(3)) <= 2


def test_loops_that_are_left() -> None:
    """Their iterators end at once."""
    log: list[str] = []

    def numbers() -> Any:
        try:
            yield from (1, 2, 3)
        finally:
            log.append("closed")

    def program(x: Any) -> Any:
        for number in numbers():
            x = x + number
            break
        log.append("behind")
        return x

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        compiled(torch.ones(2))
    assert log == ["closed", "behind"] * 2


def test_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolling, "MOST_OPERATIONS", 50)

    def program(x: Any) -> Any:
        total = []
        for step in range(40):
            x = x * 2 - 1
            x = x / 3 + step
            total.append(x.sum())
        return torch.stack(total)

    x = torch.randn(4)
    report = stator.explain(program)(x)
    assert {reason.id for reason in report.break_reasons} == {"large-graph"}
    assert 2 < report.graph_count <= 6
    torch.testing.assert_close(stator.compile(program, backend="eager")(x), program(x))
    torch.testing.assert_close(stator.compile(program, backend="eager", fullgraph=True)(x), program(x))
