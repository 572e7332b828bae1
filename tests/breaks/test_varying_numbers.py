"""Calls that torch makes for one number only, with another one each time: two compilations, and CPython makes them."""

from __future__ import annotations

import math
import random
import warnings
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from stator.report import events
from tests.breaks.test_counts import graphs
from tests.harness import check

NUMBERS = (3, 5, 2, 7, 1, 4, 6, 9, 8, 10)
NAMES = tuple("abcdefghijk")


def parts(x: Any, n: int) -> Any:
    return (x * 2).chunk(n)


def stacked(x: Any, n: int) -> Any:
    return torch.cat([part.cumsum(0) for part in x.chunk(n)])


def pieces(x: Any, n: int) -> Any:
    return x.split(n), x + 1


def pieces_by_function(x: Any, n: int) -> Any:
    return torch.cat([(part * 2).cumsum(0) for part in torch.split(x, n)])


def bins(x: Any, n: int) -> Any:
    return torch.histc(x.sin(), bins=n, min=-1, max=1).cumsum(0)


def named_result(x: Any, n: int) -> Any:
    return torch.histogram(x[:, 0].contiguous(), n, range=(-1.0, 1.0)).hist * 2


def scaled(x: Any, n: int) -> Any:
    return F.interpolate(x[None], scale_factor=n * 0.5)[0] + 1


def powers(x: Any, n: int) -> Any:
    return torch.vander(x[:, 0], N=n) * 2, torch.matrix_power(x[:4, :4], n)


def triangle(x: Any, n: int) -> Any:
    i, j = torch.tril_indices(n, n)
    return x[i, 0] + x[j, 1]


def filled(x: Any, n: int) -> Any:
    weights = torch.tensor([1.0] * n + [0.5])
    return (weights[:, None] * x[0]).sum(0)


def text(x: Any, n: int) -> Any:
    return x * 2, NAMES[n]


@stator.allow_in_graph
def laid_out(x: Any) -> Any:
    rows, columns = (int(size) for size in x.shape)
    return x.reshape(columns, rows)


def opaque(x: Any, n: int) -> Any:
    return laid_out(torch.ones(n, 4) * x[0]).cumsum(0) + 1


LAYERS = [nn.Linear(4, 4) for _ in NAMES]
MODULES = nn.ModuleList(LAYERS)


def module(x: Any, n: int) -> Any:
    return MODULES[n](x * 2).relu()


def module_in_a_list(x: Any, n: int) -> Any:
    return LAYERS[n](x * 2).relu()


def some_modules(x: Any, n: int) -> Any:
    for layer in LAYERS[:n]:
        x = layer(x).relu()
    return x


def some_rows(x: Any, n: int) -> Any:
    rows = [x[i] * i for i in range(12)]
    return torch.stack(rows[:n]).sum(0), rows[n] + 1


class Progress(NamedTuple):
    step: int
    loss: float


def replaced(x: Any, n: int) -> Any:
    progress = Progress(n, n / 4)._replace(step=n + 1)
    return x * progress.loss + progress.step


RATES = {f"layer{n}": 0.5 / n for n in range(1, 12)}


def by_name(x: Any, n: int) -> Any:
    return x * RATES[f"layer{n}"]


def seeded(x: Any, n: int) -> Any:
    generator = random.Random(n)
    return x * generator.random() + generator.randint(0, 5)


def combinations(x: Any, n: int) -> Any:
    return x * math.comb(n + 2, 2)


def warned(x: Any, n: int) -> Any:
    warnings.warn(f"step {n}", stacklevel=1)
    return x + n


CHAIN = nn.Sequential(*LAYERS)


def first_layers(x: Any, n: int) -> Any:
    for layer in MODULES[:n]:
        x = layer(x).tanh()
    return x * 2


def last_layers(x: Any, n: int) -> Any:
    return CHAIN[-n:](x) * 2


PROGRAMS = [
    parts, stacked, pieces, pieces_by_function, bins, named_result, scaled, powers, triangle, filled, text, module,
    module_in_a_list, some_modules, some_rows, opaque, replaced, by_name, seeded, combinations, warned, first_layers,
    last_layers,
]  # fmt: skip


def most_compilations() -> int:
    """Of one place: where a capture begins is known by what it is called with."""
    return max(len(cache.entries) for session in stator.runtime.session.SESSIONS for cache in caches(session))


def caches(session: Any) -> list[Any]:
    return [session, *session.continuations]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_compilations(program: Any) -> None:
    calls = [(torch.randn(12, 4), n) for n in NUMBERS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None, tolerance=1e-5)
    assert report.gained("frames_captured", first=6) == 0, report.counts
    assert report.gained("frames_skipped") == 0
    assert most_compilations() == 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.unbind(0)[0] + 1,
        lambda x: sum(x.unbind(0)),
        lambda x: torch.stack(x.unbind(0)[::-1]) * 2,
        lambda x: torch.cat(x.split(2)[::-1]),
    ],
)
def test_as_many_parts_as_a_size_says(program: Any) -> None:
    calls = [(torch.randn(n, 4),) for n in NUMBERS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=6) == 0, report.counts
    assert most_compilations() == 2


@pytest.mark.parametrize("program", [parts, bins])
def test_with_a_backend_that_traces(program: Any) -> None:
    calls = [(torch.randn(12, 4, requires_grad=program is parts), n) for n in NUMBERS]
    options: Any = {"fullgraph": False, "expect_recompiles": None, "expect_breaks": None, "backend": "aot_eager"}
    check(program, vary=calls, backward=program is parts, **options)


def test_a_full_graph_is_compiled_for_each_number() -> None:
    calls = [(torch.ones(12, 4), n) for n in (2, 3, 4)]
    check(parts, vary=calls, expect_recompiles=2)


def test_a_number_of_parts_that_the_program_knows() -> None:
    def program(x: Any, n: int) -> Any:
        first, second = x[: 2 * n].split(n)
        return first + second

    calls = [(torch.randn(20, 2), n) for n in NUMBERS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None)
    assert report.gained("frames_captured") <= 2, report.counts


class Positions(nn.Module):
    def forward(self, x: Any) -> Any:
        return laid_out(torch.arange(x.shape[0] * 3).view(-1, 3))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions, self.scale = Positions(), nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        y = (x * self.scale).cumsum(0)
        return y.sum(1) + self.positions(y).sum(0)


def test_sizes_that_an_opaque_node_asks_for() -> None:
    calls = [(torch.randn(rows, 4),) for rows in NUMBERS]
    options: Any = {"fullgraph": False, "expect_recompiles": None, "expect_breaks": None, "backward": True}
    report = check(Model(), vary=calls, **options)
    assert report.gained("frames_captured", first=3) == 0, report.counts
    assert most_compilations() == 2
    assert "varying-number" in {event.break_id for event in events.events("break")}


def test_opaque_nodes_below_native_code() -> None:
    def program(x: Any) -> Any:
        y = partial(nn.Sequential(Positions()), x * 2)
        return y() + 1

    calls = [(torch.randn(rows, 4),) for rows in NUMBERS]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert most_compilations() == 2


def test_sizes_that_do_not_vary_may_be_asked_for() -> None:
    @stator.allow_in_graph
    def halves(x: Any) -> Any:
        return x[:, int(x.shape[1]) // 2 :]

    calls = [(torch.randn(rows, 4),) for rows in NUMBERS]
    check(lambda x: halves(x * 2) + 1, vary=calls, expect_recompiles=1, expect_graphs=2)


class Pool(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Any) -> Any:
        return F.lp_pool1d(x, 2, self.size) + 1


def test_modules_have_numbers_of_their_own() -> None:
    layers = [Pool(size) for size in (2, 3, 4)]

    @torch._dynamo.disable
    def run(x: Any) -> Any:
        return [layer(x) for layer in layers]

    check(run, torch.ones(1, 2, 12), fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert "varying-number" not in {event.break_id for event in events.events("break")}


def test_numbers_that_choose_are_constants() -> None:
    def program(x: Any, dim: int) -> Any:
        return x.cumsum(0).unbind(dim)

    calls = [(torch.ones(3, 3), dim) for dim in (0, 1, -1)]
    check(program, vary=calls, fullgraph=False, expect_recompiles=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.broadcast_tensors(x, y)[0] + 1,
        lambda x, y: torch.atleast_2d(x + y, y)[0] + 1,
        lambda x, y: torch.meshgrid(*torch.broadcast_tensors(x[0, :, 0], y[:, 0]), indexing="ij")[0] + 1,
    ],
)
def test_as_many_results_whatever_the_sizes(function: Any) -> None:
    """These find something out about sizes, too."""
    compiled = stator.compile(function, backend="eager")
    with events.recording("break") as breaks:
        for count in (3, 5, 2, 7):
            x, y = torch.randn(2, count, 4), torch.randn(count, 4)
            assert torch.equal(compiled(x, y), function(x, y))
    assert not breaks


def written(xs: Any) -> Any:
    for i in range(len(xs)):
        xs[i] = xs[i].sin() * 2 + 1
        stator.graph_break()
    return xs


def named(xs: Any) -> Any:
    y = xs[0]
    for i in range(len(xs)):
        y = y.sin() * 2 + len(f"step {i}")
        stator.graph_break()
    return y


def raised(xs: Any) -> Any:
    y, seen = xs[0], []
    for i in range(len(xs)):
        y = y.sin() * 2 + 1
        stator.graph_break()
        try:
            raise ValueError(i)
        except ValueError as error:
            seen.append(error.args[0])
    return y, seen


@pytest.mark.parametrize("program", [written, named, raised])
def test_rounds_that_need_their_number_stay_compiled(program: Any) -> None:
    """CPython does what needs it, once it was a constant in most entries there may be."""
    made, ran = graphs(lambda: program, [([torch.ones(3) + k for k in range(14)],) for _ in range(2)])
    assert made <= 3 and ran[1] >= 13


def test_what_is_chosen_is_not_asked_for_its_class() -> None:
    told: list[str] = []

    class Shy:
        def __init__(self, weight: float) -> None:
            self.weight = weight

        @property
        def __class__(self) -> Any:
            told.append("asked")
            return Shy

    rows = [Shy(i / 2) for i in range(12)]

    def program(x: Any, n: int) -> Any:
        return x * rows[n].weight

    compiled = stator.compile(program, backend="eager")
    for n in range(2, 9):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * (n / 2))
    assert not told


class Batch:
    """Its length is a size."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)


def test_lengths_that_methods_tell_are_sizes() -> None:
    def program(batch: Any, seen: list[Any]) -> Any:
        y = batch.x * 2
        seen.append({"n": len(batch)})
        return y.sin() / len(batch)

    vary = [(Batch(torch.ones(n, 3)), []) for n in (2, 3, 4, 5)]
    check(program, vary=vary, expect_recompiles=1, expect_graphs=2)


def test_numbers_of_a_list_that_grows_in_each_round() -> None:
    """What has one number for each token is carried over a break."""

    def program(ids: Any, weight: Any) -> Any:
        for _ in range(8):
            logits = weight[ids[0, -1]] * 2 + 1
            stator.graph_break()
            logits = logits.cos() + logits.sin() * 2
            for token in set(ids[0].tolist()):
                logits[token] /= 1.2
            best = (logits * 2 - 3 + logits).argmax()
            ids = torch.cat([ids, best.view(1, 1)], 1)
            if best.item() == 0:
                break
        return ids

    weight = torch.randn(9, 9, generator=torch.Generator().manual_seed(0))
    made, _ = graphs(lambda: program, [(torch.tensor([[i]]), weight) for i in (1, 2, 3)])
    assert made <= 7


class Iterate(NamedTuple):
    x: Any
    step: int


def test_numbers_in_a_named_tuple_that_is_replaced() -> None:
    def program(at: Any) -> Any:
        at = at._replace(x=at.x * 2, step=at.step + 1)
        return at, at.x * at.step

    check(program, vary=[(Iterate(torch.ones(3), n),) for n in (2, 3, 4, 5)], expect_recompiles=1, expect_graphs=2)


@pytest.mark.parametrize("method", ["get", "pop", "setdefault"])
def test_methods_of_a_dict_that_c_applies_to_numbers(method: str) -> None:
    """Keys and defaults that vary, or that data tells."""

    def program(x: Any) -> Any:
        known: dict[Any, Any] = {3: "three", 4.0: "four", "5": "five"}
        keys = [len(x), x.sum().item(), f"{x.sum():.0f}", int(x.sum())]
        return list(map(getattr(known, method), keys, [len(x) * 2, *keys[:3]])), list(known), x + 1

    calls = [(torch.ones(n),) for n in (3, 4, 5, 6, 3)]
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_graphs=None, expect_recompiles=None)
