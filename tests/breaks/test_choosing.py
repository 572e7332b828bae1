"""Branches on data that only choose between numbers are part of the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.breaks.counting import graphs_and_breaks
from tests.harness import check

CALLS = [
    (torch.tensor(data),)
    for data in ([1.0, -2.0, 3.0, 4.0], [1.0, -2.0, -3.0, -4.0], [0.0, 0.0, 0.0, 0.0], [1.0, 2.0, float("nan"), -1.0])
]


def scaled(x: Any) -> Any:
    return x * (1.0 if x.sum() > 0 else -2.5)


def number(x: Any) -> Any:
    sign = 1 if x.sum().item() > 0 else -1
    return x * sign, sign


def negated(x: Any) -> Any:
    return x + (2 if not x.sum() > 0 else 3)


def counted(x: Any) -> Any:
    count = 0
    for value in x:
        if value > 0:
            count += 1
    return x + count, count


def best(x: Any) -> Any:
    found, worst = -0.5, 0.0
    for value in x:
        now = value.item()
        if now > found:
            found = now
        worst = now if now < worst else worst
    return x * found, found, worst


def returned(x: Any) -> Any:
    def sign(value: Any) -> float:
        return 1.0 if value > 0 else -1.0

    return torch.tensor([sign(value) for value in x]) * x


def several(x: Any) -> Any:
    if x.sum() > 0:
        scale = 2.5
        shift = 1
    else:
        scale = -1.5
        shift = 7
    return x * scale + shift


def assigned(x: Any) -> Any:
    total = x.sum().item()
    size = 3
    if total > 0:
        size = size * 2 - 1
        total = total + size
    return x * total, size


def rewards(x: Any) -> Any:
    given = []
    for step in range(3):
        action = (x[step] > 0).long()
        given.append(1.0 if action.item() == 1 else 0.0)
    total, returns = 0.0, []
    for reward in reversed(given):
        total = reward + 0.9 * total
        returns.insert(0, total)
    return (x[:3] * torch.tensor(returns)).sum()


@pytest.mark.parametrize("program", [scaled, number, negated, counted, best, returned, several, assigned, rewards])
def test_the_graph_chooses(program: Any) -> None:
    check(program, vary=CALLS, expect_recompiles=None)


def test_it_is_one_graph_for_all_data() -> None:
    assert graphs_and_breaks(rewards, CALLS) == (1, 0)


class Ending:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("ended")


def ended(x: Any) -> Any:
    log: list[str] = []
    held: Any = Ending(log)
    if x.sum() > 0:
        held = 1.0
    else:
        held = 2.0
    return x * held, log


def of_two_types(x: Any) -> Any:
    return (1 if x.sum() > 0 else 0.5), x + 1


def unbound(x: Any) -> Any:
    if x.sum() > 0:
        scale = 1.0
    try:
        return x * scale
    except UnboundLocalError:
        return x


def divided(x: Any) -> Any:
    total, zero = x.sum().item(), 0.0
    try:
        ratio = total / zero if total > 100 else 0.0
    except ZeroDivisionError:
        ratio = -1.0
    return x * ratio


def indexed(x: Any) -> Any:
    return [torch.sin, torch.cos][1 if x.sum() > 0 else 0](x)


def of_tensors(x: Any) -> Any:
    y, z = x + 1, x - 1
    w = y if x.sum() > 0 else z
    return w is y, w


def too_many(x: Any) -> Any:
    return x + 1 if x > 0 else x - 1


@pytest.mark.parametrize("program", [ended, of_two_types, unbound, divided, indexed, of_tensors, too_many])
def test_other_branches_are_breaks(program: Any) -> None:
    check(program, vary=CALLS, fullgraph=False, expect_breaks=None, expect_recompiles=None)
