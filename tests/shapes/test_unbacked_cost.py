"""What numbers from data cost: questions to torch, guards and lines in proportion to how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves

import stator
from stator.report.events import recording
from stator.shapes.bounding import Bounding
from stator.shapes.unknowns import LARGEST_CHOICE, Unknowns
from stator.tensors import planning
from tests.shapes.counting import calls

ROWS = torch.arange(48.0).reshape(16, 3)
WEIGHT = torch.arange(9.0).reshape(3, 3)
LONG = torch.arange(500.0)


def items(x: torch.Tensor) -> Any:
    return [torch.zeros(x[i].item()) + 1 for i in range(len(x))]


def masks(x: torch.Tensor) -> Any:
    return torch.stack([torch.relu(ROWS[(x[:16] + i) % 3 != 0] @ WEIGHT).sum(0) for i in range(len(x))])


def experts(x: torch.Tensor) -> Any:
    out = torch.zeros(16, 3)
    for i in range(len(x)):
        (chosen,) = torch.where((x[:16] + i) % 4 == 0)
        out.index_add_(0, chosen, ROWS[chosen] @ WEIGHT)
    return out


def ragged(x: torch.Tensor) -> Any:
    parts, start = [], 0
    for length in x.tolist():
        parts.append(LONG[start : start + length].sum())
        start = start + length
    return parts


def parts(x: torch.Tensor) -> Any:
    return [part * 2 for part in torch.ones(x.sum().item()).split(x.tolist())]


def selected(x: torch.Tensor) -> Any:
    return [torch.masked_select(x, x > i) for i in range(len(x))], [
        LONG.narrow(0, 0, x[i].item()) for i in range(len(x))
    ]


def repeated(x: torch.Tensor) -> Any:
    """Rows as long as data says, padded to the longest."""
    rows = [torch.cat([ROWS[:1].expand(max(n.item(), 0), -1) for n in half]) for half in x.chunk(2)]
    longest = max(row.size(0) for row in rows)
    return [torch.nn.functional.pad(row, (0, 0, 0, longest - row.size(0))) for row in rows]


def padded(x: torch.Tensor) -> Any:
    """As long as the longest of all."""
    longest = max(x.tolist())
    return [torch.nn.functional.pad(LONG[:n], (0, longest - n)) for n in x.tolist()]


def padded_in_a_loop(x: torch.Tensor) -> Any:
    lengths, longest = x.tolist(), 0
    for n in lengths:
        longest = max(longest, n)
    return [torch.nn.functional.pad(LONG[:n], (0, longest - n)) for n in lengths]


def cut(x: torch.Tensor) -> Any:
    """As short as the shortest of all."""
    shortest = min(x.tolist())
    return [LONG[:n][:shortest] for n in x.tolist()]


def padded_sequences(x: torch.Tensor) -> Any:
    return torch.nn.utils.rnn.pad_sequence(list(torch.ones(x.sum().item()).split(x.tolist())), batch_first=True)


def cost(program: Callable[..., Any], count: int, patch: pytest.MonkeyPatch) -> dict[str, int]:
    counts = dict.fromkeys(("propagations", "questions", "guards", "nodes", "lines"), 0)

    def counted(owner: Any, name: str, key: str) -> None:
        plain = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            counts[key] += 1
            return plain(*args, **kwargs)

        patch.setattr(owner, name, call)

    def backend(graph: Any, inputs: Any) -> Any:
        counts["nodes"] += len(graph.graph.nodes)
        counts["lines"] += len(str(graph.code).splitlines())
        return graph.forward

    with patch.context() as patch:
        counted(planning, "propagate", "propagations")
        counted(ShapeEnv, "evaluate_expr", "questions")
        counted(ShapeEnv, "guard_or_defer_runtime_assert", "questions")
        x = torch.arange(count) % 7 + 2
        with recording("guards", "break", "skip") as seen:
            result = stator.compile(program, backend=backend)(x)
    assert [event.kind for event in seen] == ["guards"]
    counts["guards"] = seen[0].count
    for made, expected in zip(*map(tree_leaves, (result, program(x))), strict=True):
        assert torch.equal(made, expected)
    return counts


def running_sums(x: torch.Tensor) -> Any:
    total, made = 0, []
    for i in range(len(x)):
        total = total + x[i].item()
        made.append(torch.ones(total).sum())
    return made


def growing(x: torch.Tensor) -> Any:
    kept, made = x[x > 1], []
    for i in range(len(x)):
        kept = torch.cat([kept, x[x > i % 3]])
        made.append((kept * 2).sum())
    return made


@pytest.mark.parametrize("program", [items, masks, experts, ragged, parts, selected, running_sums, growing])
def test_cost_is_in_proportion(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cost(program, 16, monkeypatch)  # what is found out once for the process
    few, many = cost(program, 16, monkeypatch), cost(program, 64, monkeypatch)
    assert many["propagations"] - few["propagations"] <= 6
    assert many["questions"] - few["questions"] <= 60
    assert many["guards"] == few["guards"]
    assert many["nodes"] <= 4 * few["nodes"]
    assert many["lines"] <= 4 * few["lines"]


def test_choices_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many maxima may be one of two numbers: not all ways are tried."""
    tried = 0
    plain = Bounding._by_choice

    def counted(self: Any, number: Any) -> Any:
        nonlocal tried
        tried += 1
        assert tried < 20_000
        return plain(self, number)

    monkeypatch.setattr(Bounding, "_by_choice", counted)
    for count in (8, 32):
        cost(repeated, count, monkeypatch)


@pytest.mark.parametrize("program", [padded, padded_in_a_loop, cut])
def test_no_long_maxima(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch compares all numbers of a maximum with each other, whenever it makes one."""
    lengths = [0]
    plain = Unknowns._add

    def noted(self: Any, expr: Any) -> Any:
        if type(expr).__name__ in ("Max", "Min"):
            lengths.append(len(expr.args))
        return plain(self, expr)

    monkeypatch.setattr(Unknowns, "_add", noted)
    cost(program, 40, monkeypatch)
    assert max(lengths) <= LARGEST_CHOICE


@pytest.mark.parametrize("program", [padded_in_a_loop, padded_sequences])
def test_no_more_for_each_of_more(program: Callable[..., Any]) -> None:
    calls(program, torch.full((12,), 2))  # what is found out once for the process
    few, some, many = (calls(program, torch.full((count,), 2)) for count in (20, 50, 80))
    assert many - some <= 1.2 * (some - few)
    assert many - some <= 30 * 16_000


def parts_of_one_length(x: torch.Tensor) -> Any:
    """Each part begins behind all others: a long sum."""
    parts = torch.ones(x.sum().item()).split(x.tolist())
    return torch.stack([torch.nn.functional.pad(part, (0, 16 - part.shape[0])) for part in parts])


def test_where_parts_begin_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    long, plain = 0, Unknowns._summands

    def counted(self: Any, number: Any) -> Any:
        nonlocal long
        long += len(number.terms) > 20
        return plain(self, number)

    monkeypatch.setattr(Unknowns, "_summands", counted)
    cost(parts_of_one_length, 40, monkeypatch)
    assert long <= 2
