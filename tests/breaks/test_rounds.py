"""Loops with breaks in them: what changes from round to round is no constant of the first round's graph."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from tests.breaks.test_counts import CALLS, graphs
from tests.harness import check


def until_it_settles(x: Any) -> Any:
    before = float("inf")
    for _ in range(20):
        x = x * 0.5
        now = x.sum().item()
        if abs(before - now) < 0.1:
            break
        before = now
    return x


def until_enough(x: Any) -> Any:
    spent, out = 0.0, torch.zeros(4)
    while spent < 2.9:
        weight = torch.sigmoid(x.mean())
        spent = spent + weight.item()
        out = out + weight * x
    return out


def with_smaller_steps(x: Any) -> Any:
    step = 1.0
    while ((x - step * x) ** 2).sum() < 0.5 * step:
        step *= 0.5
    return x - step * x


def one_token_more(x: Any) -> Any:
    tokens = x[:2]
    for _ in range(5):
        following = tokens.mean(0, keepdim=True)
        tokens = torch.cat([tokens, following])
        if following.sum() > 100:
            break
    return tokens


def counted_by_hand(x: Any) -> Any:
    rounds = 0
    while rounds < 4:
        x = x + rounds
        stator.graph_break()
        rounds += 1
    return x


def numbered_pairs(x: Any) -> Any:
    found = x * 0
    for i, (one, two) in enumerate(zip(x, x * 2, strict=True)):
        if one < two:
            found = found + i
    return found


class World:
    """A state that lives in attributes."""

    def __init__(self) -> None:
        self.place, self.time = 0.0, 0

    def step(self, push: float) -> bool:
        self.place = self.place * 0.9 + push
        self.time += 1
        return abs(self.place) > 3


def walked(world: World, x: Any) -> Any:
    ends, world.place, world.time = False, 0.1, 0
    while not ends:
        ends = world.step((x * world.place).mean().item())
        x = x + 1
    return x


def in_a_world() -> Any:
    world = World()
    return lambda x: (walked(world, x), world.place, world.time)


def in_a_new_world() -> Any:
    def program(x: Any) -> Any:
        world = World()
        return walked(world, x), world.place, world.time

    return program


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: until_it_settles, 2),
        (lambda: until_enough, 2),
        (lambda: with_smaller_steps, 3),
        (lambda: one_token_more, 2),
        (lambda: counted_by_hand, 2),
        (lambda: numbered_pairs, 3),
        (in_a_world, 2),
        (in_a_new_world, 2),
    ],
)
def test_the_first_round_and_all_others(make: Any, most: int) -> None:
    """And at most one graph for what comes behind the loop."""
    made, _ = graphs(make, CALLS[1:4])
    assert made <= most


def until_the_end(ids: Any) -> Any:
    while True:
        following = (ids.float().cumsum(-1).cos() * 9).long()[:, -1:] % 5
        ids = torch.cat([ids, following], -1)
        if (following == 3).all() or ids.shape[1] > 12:
            return ids


def with_a_rate(ids: Any, rate: float) -> Any:
    for _ in range(4):
        following = (ids.float().cumsum(-1).cos() * 9 * rate).long()[:, -1:] % 5
        ids = torch.cat([ids, following], -1)
        stator.graph_break()
    return ids


def test_what_grows_in_the_first_round_varies_at_once() -> None:
    """So prompts of all lengths and all rounds have one graph."""
    prompts = [torch.arange(2 * n).view(2, n) % 5 for n in (4, 6, 3)]
    made, _ = graphs(lambda: until_the_end, [(ids,) for ids in prompts])
    assert made == 1
    made, _ = graphs(lambda: with_a_rate, [(ids, rate) for ids, rate in zip(prompts, (1.0, 1.0, 0.5), strict=True)])
    assert made == 2


class Writer(torch.nn.Module):
    """What generates is a method, or the module that is compiled."""

    def forward(self, ids: Any) -> Any:
        return until_the_end(ids)


def test_what_grows_in_a_function_varies_at_once() -> None:
    prompts = [(torch.arange(2 * n).view(2, n) % 5,) for n in (4, 6, 3)]
    for make in (Writer, lambda: lambda ids: (Writer()(ids), ids.sum())[0]):
        made, _ = graphs(make, prompts)
        assert made == 1


def test_what_layers_make_does_not() -> None:
    """Sizes that are others altogether, and those of variables that something else has changed before the loop."""

    def pooled(x: Any) -> Any:
        for _ in range(2):
            x = torch.nn.functional.avg_pool2d(x.sin(), 2) + 1
            stator.graph_break()
        return x

    def prepared(x: Any) -> Any:
        x = torch.cat([x, x])
        for _ in range(3):
            x = x.sin() + 1
            stator.graph_break()
        return x

    for program, x in ((pooled, torch.ones(1, 1, 16, 16)), (prepared, torch.ones(3))):
        stator.reset()
        seen: list[Any] = []
        stator.compile(program, backend=lambda graph, inputs, seen=seen: seen.append(inputs) or graph.forward)(x)
        assert not any(type(one) is torch.SymInt for one in seen[0][0].shape)


def test_parts_of_one_tensor_share_a_graph() -> None:
    """Wherever they begin in its memory, and whatever Python does in between."""

    def program(x: Any) -> Any:
        found: dict[int, int] = {}
        for part in x:
            number = int(part * 2)
            found[number] = found.get(number, 0) + 1
        return found

    made, _ = graphs(lambda: program, CALLS[:2])
    assert made <= 2


def test_a_file_for_each_call_shares_the_graphs(tmp_path: Path) -> None:
    def program(x: Any) -> Any:
        y = x + 1
        with open(tmp_path / "log.txt", "w") as file:
            file.write(f"{y.sum().item()}\n")
        return y * 2

    made, _ = graphs(lambda: program, CALLS[:4])
    assert made <= 3


def test_a_strict_zip_complains_behind_breaks() -> None:
    def program(x: Any) -> Any:
        found = []
        try:
            for one, two in zip(x, [1, 2, 3], strict=True):
                if one < 100:
                    found.append(one * two)
        except ValueError as error:
            return found, str(error)
        return found

    check(program, vary=CALLS[:2], fullgraph=False, expect_breaks=None, expect_recompiles=None)


def averaged(x: Any) -> Any:
    return x * statistics.mean([(x * i).sum().item() for i in range(3)]) + 1


def measured(x: Any) -> Any:
    return x * length_of(x + 1) + 1


@stator.disable
def length_of(x: Any) -> float:
    return float(x.norm())


@pytest.mark.parametrize("program", [averaged, measured])
def test_floats_that_a_call_gives_vary_at_once(program: Any) -> None:
    made, _ = graphs(lambda: program, CALLS[:4])
    assert made == 2
