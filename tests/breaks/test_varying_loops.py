"""Loops whose number of rounds differs from call to call: the body is compiled once, not once per number."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

LENGTHS = (4, 6, 2, 9, 12, 5, 7, 8, 3, 10, 11, 20)


def collected(x: Any) -> Any:
    state, states = x[:, 0] * 0, []
    for i in range(x.shape[1]):
        state = torch.tanh(state + x[:, i])
        states.append(state)
    return torch.stack(states, 1)


def rows(x: Any) -> Any:
    state = x.new_zeros(x.shape[0], x.shape[2])
    for row in x.transpose(0, 1):
        state = torch.tanh(state + row)
    return state


def numbered_pairs(x: Any) -> Any:
    total = x[:, 0]
    for i, (a, b) in enumerate(zip(x.unbind(1), (x * 2).unbind(1), strict=True)):
        total = total + a * b * i
    return total


def indexed(x: Any) -> Any:
    parts = x.unbind(1)
    total = x[:, 0]
    for i in range(len(parts)):
        total = torch.tanh(total + parts[i])
    return total


def filled(x: Any) -> Any:
    parts = [None] * x.shape[1]
    for i in range(x.shape[1]):
        parts[i] = x[:, i].sin()
    return torch.stack(parts, 1)


def comprehension(x: Any) -> Any:
    return torch.stack([torch.tanh(part) for part in x.unbind(1)], 1)


def condition(x: Any) -> Any:
    i, state = 1, x[:, 0]
    while i < x.shape[1]:
        state = torch.tanh(state + x[:, i])
        i += 1
    return state * i


def counted_down(x: Any) -> Any:
    left, state = x.shape[1] - 1, x[:, 0]
    while left:
        state = torch.tanh(state + x[:, left])
        left -= 1
    return state


def inner(x: Any) -> Any:
    state = x[:, 0]
    for i in range(x.shape[1]):
        state = torch.tanh(state + x[:, i])
    return state


def in_a_call(x: Any) -> Any:
    with torch.no_grad():
        return inner(x * 2) + 1


def written(x: Any) -> Any:
    out = torch.zeros_like(x)
    for i in range(x.shape[1]):
        out[:, i] = x[:, : i + 1].sum(1)
    return out


PROGRAMS = [
    collected,
    rows,
    numbered_pairs,
    indexed,
    filled,
    comprehension,
    condition,
    counted_down,
    in_a_call,
    written,
]


def tensors(lengths: Any = LENGTHS) -> Any:
    torch.manual_seed(0)
    return [(torch.randn(3, length, 3),) for length in lengths]


def swept(function: Any, calls: Any, **options: Any) -> list[str]:
    """The breaks of calls that give what they give in eager."""
    compiled = stator.compile(function, backend="eager", **options)
    for args in calls:
        torch.testing.assert_close(compiled(*args), function(*args))
    return [event.break_id for event in events.events("break")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_body_for_all_lengths(program: Any) -> None:
    compiled = stator.compile(program, backend="eager")
    for args in tensors(LENGTHS[:4]):
        compiled(*args)
    made = stator.stats()["frames_captured"]
    assert made <= 15
    for args in tensors():
        torch.testing.assert_close(compiled(*args), program(*args))
    assert stator.stats()["frames_captured"] == made
    assert "varying-loop" in {event.break_id for event in events.events("break")} and not events.events("skip")
    assert max(Counter(event.code for event in events.events("recompile")).values()) <= 6  # all places together


def repeated(x: Any, count: int) -> Any:
    for _ in range(count):
        x = torch.cos(x)
    return x


def test_ints() -> None:
    x = torch.randn(3)
    assert set(swept(repeated, [(x, count) for count in LENGTHS])) == {"varying-loop"}
    assert stator.stats()["recompiles"] == 1


def test_one_number_of_rounds_is_one_graph() -> None:
    assert not swept(lambda x: collected(x), [(torch.randn(batch, 4, 3),) for batch in (2, 3, 5)])


def test_at_most_so_many_rounds() -> None:
    def program(x: Any) -> Any:
        for i in range(min(3, x.shape[1] // 2)):
            x = torch.tanh(x) + i
        return x

    check(program, vary=[(torch.randn(2, n),) for n in (8, 10, 6, 20)], fullgraph=False, expect_recompiles=1)


def halves(x: Any) -> Any:
    for i in range(x.shape[1] // 2):
        x = torch.tanh(x) + i
    return x


def logarithms(x: Any) -> Any:
    for i in range(int(math.log(x.shape[1]))):
        x = torch.tanh(x) + i
    return x


def pieces(x: Any) -> Any:
    for y in x.split(5, 1):
        x = torch.tanh(x) + y.sum()
    return x


def thirds(x: Any) -> Any:
    i = 0
    while i * 3 < x.shape[1]:
        x, i = torch.tanh(x) + i, i + 1
    return x


@pytest.mark.parametrize("program", [halves, logarithms, pieces, thirds])
def test_a_number_of_rounds_that_was_never_seen_to_change(program: Any) -> None:
    check(program, vary=[(torch.randn(n, 12),) for n in (2, 3, 4)], fullgraph=False, expect_recompiles=1)


def test_none_or_one_round() -> None:
    assert not swept(repeated, [(torch.randn(3), 4), (torch.randn(3), 1), (torch.randn(3), 0)])


def test_full_graphs_are_unrolled() -> None:
    assert not swept(collected, tensors(LENGTHS[:3]), fullgraph=True)
    assert stator.stats()["graphs"] == 3


def test_breaks_that_are_errors() -> None:
    with stator.error_on_graph_break(True):
        assert not swept(collected, tensors(LENGTHS[:3]))


def listed(x: Any, count: int) -> Any:
    table = [float(i) for i in range(count)]
    return x * sum(table)


def bisected(x: Any, count: int) -> Any:
    low, high = 0.0, 2.0
    for _ in range(count):
        middle = (low + high) / 2
        if middle * middle < 2:
            low = middle
        else:
            high = middle
    return x * low


def power_of_two(x: Any, count: int) -> Any:
    power = 1
    while power < count * count:
        power *= 2
    return x * power


@pytest.mark.parametrize("program", [listed, bisected, power_of_two])
def test_loops_of_numbers(program: Any) -> None:
    assert set(swept(program, [(torch.randn(3), count) for count in LENGTHS])) == {"varying-loop"}
    assert stator.stats()["recompiles"] <= 2


def test_layers_of_other_models() -> None:
    def run(layers: Any, x: Any) -> Any:
        for i in range(len(layers)):
            x = layers[i](x)
        return x

    models = [torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(depth)) for depth in (3, 4, 5)]
    assert not swept(run, [(model, torch.randn(2, 3)) for model in models])


def test_gradients() -> None:
    cell = torch.nn.GRUCell(3, 3)

    def run(x: Any) -> Any:
        state = x.new_zeros(x.shape[0], 3)
        for part in x.unbind(1):
            state = cell(part, state)
        return state.sum()

    compiled = stator.compile(run, backend="eager")
    for (x,) in tensors(LENGTHS[:4]):
        found = []
        for function in (run, compiled):
            cell.zero_grad()
            function(x).backward()
            found.append([parameter.grad.clone() for parameter in cell.parameters()])
        torch.testing.assert_close(*found)


def test_what_passes_through_a_loop_varies_behind_it():
    """The rounds do not look at the list: what was known of its tensors is known behind them."""

    def program(x):
        kept = [x * 2, x.sum(0)]
        total = x[:, 0] * 0
        for i in range(x.shape[1]):
            total = total + x[:, i].sin()
        return total + kept[0].sum(1), kept[1] + 1

    calls = [(torch.randn(rows, columns),) for rows, columns in ((2, 5), (3, 7), (4, 4), (6, 9), (7, 6))]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=3) == 0, report.counts


def test_rows_of_two_tensors_side_by_side():
    def program(x, scales, shifts):
        for scale, shift in zip(scales, shifts, strict=False):
            x = x * scale + shift
        return x

    calls = [(torch.ones(3), torch.rand(n), torch.rand(n)) for n in (2, 3, 4, 5, 6)]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=4) == 0, report.counts


def test_as_many_rounds_as_data_says():
    """The range behind the break is another one on each call: from the second one on CPython goes round."""

    def program(x, n):
        for i in range(n.item()):
            x = x * 1.5 + i
        return x

    compiled = stator.compile(program, backend="eager")
    captured = []
    for n in (3, 2, 5, 4, 7, 1, 9, 6):
        x = torch.arange(3.0)
        assert torch.equal(compiled(x, torch.tensor(n)), program(x, torch.tensor(n)))
        captured.append(stator.stats()["frames_captured"])
    assert captured[2] == captured[-1]


def test_the_item_of_such_a_loop_is_a_symbol_at_once():
    def program(x, lengths):
        for i in range(lengths.max().item()):
            x = torch.where(i < lengths, x * 1.5 + i, x)
        return x

    calls = [(torch.arange(3.0), torch.tensor([1, 2, n])) for n in (2, 3, 4, 7)]
    compiled = stator.compile(program, backend="eager")
    for args in calls:
        assert torch.equal(compiled(*args), program(*args))
    assert stator.stats()["graphs"] == 2  # two rounds at first, then one for all


def clipped(x: Any) -> Any:
    state, states = x.new_zeros(4), []
    for i in range(x.shape[0]):
        state = torch.tanh(state + x[i])
        states.append(state)
        if state.abs().max() > 100:
            state = state / 2
    return torch.stack(states)


def noted(x: Any) -> Any:
    total = x[0]
    for number in x[:, 0].tolist():
        total = (total + x[0] * number).sin()
        stator.graph_break()
    return total


def two_deep(x: Any) -> Any:
    def inner(y: Any, n: int) -> Any:
        for i in range(n):
            y = y.sin() + i
            stator.graph_break()
        return y * 2

    return inner(inner(x[0], x.shape[0]), len(x))


@pytest.mark.parametrize("program", [clipped, noted, two_deep])
def test_breaks_in_loops_of_all_lengths(program: Any) -> None:
    """One round before the break is enough: its number of rounds must not tell entries apart."""
    assert "varying-loop" in swept(program, [(torch.ones(length, 4),) for length in LENGTHS])
    assert stator.stats()["graphs"] <= 6 and not events.events("skip")
