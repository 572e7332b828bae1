"""Once a number changed, others that are likely to change are symbols too: two compilations in any order."""

from __future__ import annotations

import collections
import math
import warnings

import pytest
import torch
from torch import nn

import stator
from stator.guards import path as paths
from stator.guards.tensor_spec import TensorSpec
from stator.report.events import recording
from stator.shapes import polynomial
from stator.shapes.guesses import Guesses
from tests.harness import check

ORDERS = {
    "batch first": [(2, 6), (3, 6), (6, 6), (6, 7), (6, 4), (8, 9)],
    "length first": [(2, 6), (2, 7), (2, 8), (3, 8), (8, 8), (5, 3)],
    "equal ones": [(4, 8), (8, 8), (6, 6), (4, 4), (3, 16), (16, 2)],
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x, mask):
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + mask
        return (scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape)


def twice(fn, calls, compiles=2, **options):
    report = check(fn, vary=calls, expect_recompiles=None, expect_graphs=None, **options)
    assert report.gained("frames_captured") <= compiles, report.counts
    assert report.gained("graph_breaks") == 0
    assert report.gained("frames_skipped") == 0


@pytest.mark.parametrize("order", ORDERS)
def test_sizes_in_any_order(order):
    calls = [(torch.randn(b, s, 8), torch.randn(s, s)) for b, s in ORDERS[order]]
    twice(Attention(), calls)


class Cache:
    keys = None


def test_a_decoder_with_a_cache_of_its_own():
    """A prompt, then one token at a time; the length of the cache is that of the prompt at first."""
    embed = nn.Embedding(9, 8).requires_grad_(False)

    def step(ids, cache):
        new = embed(ids)
        cache.keys = new if cache.keys is None else torch.cat([cache.keys, new], 1)
        return (new @ cache.keys.mT).softmax(2) @ cache.keys

    cache, compiled = Cache(), stator.compile(step, backend="eager", fullgraph=True)
    expected, before = Cache(), stator.stats()["frames_captured"]
    for length in (7, 1, 1, 1, 1):
        ids = torch.randint(9, (2, length))
        assert torch.equal(compiled(ids, cache), step(ids, expected))
    assert stator.stats()["frames_captured"] - before == 2


@pytest.mark.parametrize("order", ORDERS)
def test_sizes_without_parameters(order):
    def program(ids, table):
        return table[ids].mean(1), (ids[:, None] == ids[None]).all(2)

    twice(program, [(torch.arange(b * s).reshape(b, s) % 5, torch.randn(5, 3)) for b, s in ORDERS[order]])


def test_numbers_that_change_later():
    def program(x, n, scale, flag=1):
        return x * n + scale if flag else x

    rows = [(4, 3, 0.5), (7, 3, 0.5), (7, 6, 0.5), (8, 2, 0.25), (8, 2, -1.5)]
    twice(program, [(torch.ones(size, 2), n, scale) for size, n, scale in rows])


def test_numbers_alone_leave_sizes_constants():
    compiled = stator.compile(lambda x, a: x * a, backend="eager")
    with recording("guards") as seen:
        for scale in (0.5, 0.25, 0.75):
            compiled(torch.ones(3, 4), scale)
    assert len(compiled.entries()) == 2
    text = seen[-1].text() if callable(seen[-1].text) else seen[-1].text
    assert "(3, 4)" in text


def test_floats_next_to_one_that_changed():
    def program(x, group):
        return x * group["rate"] - x * group["decay"] + group["steps"]

    rows = [(0.1, 0.2), (0.3, 0.2), (0.4, 0.2), (0.4, 0.5), (0.6, 0.7)]
    twice(program, [(torch.ones(3), {"rate": rate, "decay": decay, "steps": 3}) for rate, decay in rows])


def test_what_the_program_needs_is_a_constant():
    """Features meet parameters; a loop runs as often as a size says."""

    def program(x, w):
        for i in range(x.shape[3]):
            x = x + i * x.shape[3] ** -0.5
        return x @ w

    w = torch.randn(4, 5, requires_grad=True)
    compiled = stator.compile(program, backend="eager")
    with recording("guards") as seen:
        for b, s in ORDERS["batch first"]:
            x = torch.randn(b, s, 3, 4)
            torch.testing.assert_close(compiled(x, w), program(x, w), rtol=0, atol=0)
    assert len(compiled.entries()) == 2
    text = seen[-1].text() if callable(seen[-1].text) else seen[-1].text
    assert "(?, ?, ?, 4)" in text


def test_weights_among_the_arguments_stay_constants():
    compiled = stator.compile(lambda x, w: torch.nn.functional.conv1d(x, w).relu(), backend="eager")
    weight = torch.randn(4, 3, 2)
    with recording("guards") as seen:
        for size in (5, 6, 7):
            compiled(torch.randn(2, 3, size), weight)
    assert len(compiled.entries()) == 2
    text = seen[-1].text() if callable(seen[-1].text) else seen[-1].text
    assert "(4, 3, 2)" in text
    assert "(?, 3, ?)" in text


def test_a_number_in_place_of_none():
    def program(x, n):
        return x if n is None else x * n

    twice(program, [(torch.ones(2), n) for n in (None, 3, 4, None, 5)])
    twice(program, [(torch.ones(2), n) for n in (None, 0.5, 0.25, None, 0.75)])


def test_containers_of_c_keep_symbols():
    class Output(collections.OrderedDict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)

    def program(x):
        made = Output()
        made["n"] = [x.shape[0]]
        queue = collections.deque(maxlen=2)
        queue.append(x.shape[0])
        return x.new_zeros(made["n"][0] + queue[0]) + 1

    twice(program, [(torch.ones(n),) for n in (3, 4, 5, 6)])


def test_whole_numbers_of_calculated_floats():
    def program(x, a):
        return x * int(a * 0.1), x + math.floor(a / 8), x - math.ceil(-a / 8)

    twice(program, [(torch.ones(2), a) for a in (1.0, 2.0, 3.5, 7.9, 0.1)])
    twice(program, [(torch.ones(2), a) for a in (1.0, 2.0, -3.5, 20.0, -20.0, 0.0)], compiles=6)


def scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n + x.size(0)


def test_scripted_functions_are_captured_from_their_source():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(scripted)
    compiled = stator.compile(lambda x: script(x, 3), backend="eager", fullgraph=True)
    for n in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(n)), scripted(torch.ones(n), 3))
    assert len(compiled.entries()) == 2


def test_quotients():
    a, b, c = map(polynomial.unknown, range(3))
    left = polynomial.multiply(polynomial.add(a, 1), polynomial.add(polynomial.multiply(b, 2), c))
    assert polynomial.quotient(left, polynomial.add(a, 1)) == polynomial.add(polynomial.multiply(b, 2), c)
    assert polynomial.quotient(polynomial.add(left, 1), polynomial.add(a, 1)) is None
    assert polynomial.quotient(polynomial.multiply(left, 3), polynomial.add(polynomial.multiply(a, 2), 2)) is None


@pytest.mark.parametrize("first", [0, 1])
def test_edges_and_nodes_of_a_graph(first):
    """Weights of edges are as many as the index tells, whichever of both numbers changes first."""
    sizes = [(5, 7), (6, 7) if first == 0 else (5, 8), (6, 9), (3, 11), (8, 4)]
    layer = nn.Linear(4, 4)

    def program(x, edges, weight, features):
        messages = layer(x)[edges[0]] * weight[:, None] + features.sum(1, keepdim=True)
        return torch.zeros_like(x).index_add(0, edges[1], messages)

    twice(program, [(torch.randn(n, 4), torch.randint(n, (2, e)), torch.rand(e), torch.randn(e, 3)) for n, e in sizes])


def test_images_and_texts():
    """The length of the texts changes first, then the number of both."""
    embed, project = nn.Embedding(9, 4), nn.Linear(12, 4)

    def program(ids, images):
        return embed(ids).mean(1) @ project(images.flatten(1)).mT

    sizes = [(4, 6), (4, 7), (5, 7), (3, 9)]
    twice(program, [(torch.randint(9, (b, s)), torch.randn(b, 3, 2, 2)) for b, s in sizes])


def test_rates_of_groups_that_change_one_after_the_other():
    """A group whose rate happens to be the same in the second call."""

    def program(x, groups):
        return [x * group["rate"] - x * group["decay"] for group in groups]

    rates = [(0.5, 0.25), (0.25, 0.25), (0.75, 0.125), (0.3, 0.7)]
    twice(program, [(torch.ones(2), [{"rate": rate, "decay": 0.1} for rate in both]) for both in rates])


def test_sizes_that_are_kept_across_a_break():
    """The length changes first, then the number of rows, which a variable holds."""

    def program(x):
        rows, shape = len(x), tuple(x.shape)
        scale = {1: 2}[int((x == x).any())]  # a break
        return x.view(rows, -1) * scale + torch.arange(rows)[:, None], x.reshape(-1).view(shape)

    calls = [(torch.randn(b, s, 3),) for b, s in ((4, 6), (4, 7), (5, 7), (3, 9))]
    report = check(program, vary=calls, expect_recompiles=2, expect_graphs=None, expect_breaks=None, fullgraph=False)
    assert report.gained("frames_captured") == 4


class Masked(torch.nn.Module):
    """Keeps the largest mask that was needed so far."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", None, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        if self.mask is None or self.mask.shape[0] < n:
            self.mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        return (x @ x.transpose(1, 2)).masked_fill(self.mask[:n, :n], -1e9).softmax(-1) @ x


def test_buffers_that_the_program_fills():
    calls = [(torch.randn(b, n, 4),) for b, n in ((4, 9), (2, 5), (7, 12), (3, 7), (5, 16), (6, 10))]
    check(Masked(), vary=calls, expect_recompiles=2, expect_graphs=3)


def test_ids_and_masks_have_one_shape():
    """What had the same sizes twice is taken to have them always; not any more where that was a mistake."""

    def program(ids, mask):
        longer = max(ids.shape[1] - mask.shape[1] + 4, 4)  # a comparison, if these were two sizes
        return torch.ones(longer) * ids.sum(), ids[:, : mask.shape[1]], mask.shape

    def given(rows, columns, others):
        return torch.ones(rows, columns, dtype=torch.int64), torch.ones(rows, others, dtype=torch.bool)

    alike = [(2, 5, 5), (3, 7, 7), (4, 9, 9), (6, 4, 4)]
    report = check(program, vary=[given(*sizes) for sizes in alike], expect_recompiles=None)
    assert report.gained("frames_captured") == 2
    report = check(program, vary=[given(*sizes) for sizes in (*alike, (3, 8, 5), (4, 9, 6))], expect_recompiles=None)
    assert report.gained("frames_captured") == 3


def test_batches_that_are_constants_are_found_at_once():
    """Guessing ends after too many mistakes: one that was made at several places is one."""
    changed, other = paths.arg(0), paths.arg(1)
    guesses = Guesses({(changed, "size", 1)})
    before, now = TensorSpec.of(torch.ones(2, 5, dtype=torch.int64)), torch.ones(2, 6, dtype=torch.int64)
    guesses.note([(changed, "size", 1)], before, now)
    assert guesses.dims(changed, now) == {0, 1} and guesses.dims(other, now) == {0, 1}
    guesses.correct([(changed, "size", 0)])
    assert guesses.dims(changed, now) == {1} and guesses.dims(other, now) == {1}


class Cache:
    """Keys of earlier calls."""

    def __init__(self, keys=None):
        self.keys = keys


def step(ids, mask, cache):
    keys = ids.float()[..., None] * torch.arange(1.0, 5.0)
    if cache.keys is not None:
        keys = torch.cat([cache.keys, keys], 1)
    cache.keys = keys
    return (keys * mask[..., None]).sum(1)


def test_a_cache_has_as_many_rows_as_the_ids():
    """Prompts and single tokens in turn, batches that vary later: two compilations for prompts, one for tokens."""

    def call(rows, length, earlier=0):
        ids, mask = torch.ones(rows, length, dtype=torch.long), torch.ones(rows, earlier + length, dtype=torch.long)
        return ids, mask, Cache(torch.randn(rows, earlier, 4) if earlier else None)

    sizes = ((2, 8), (2, 1, 8), (2, 11), (3, 11), (3, 1, 11), (5, 20), (5, 1, 20))
    check(step, vary=[call(*size) for size in sizes], expect_recompiles=2, expect_graphs=None)


def test_a_table_with_as_many_rows_as_examples():
    """It is no reason to compile for each number of examples."""

    def program(x, cache):
        return x @ cache.keys + 1

    calls = [(torch.randn(rows, 2), Cache(torch.randn(2, 3))) for rows in (2, 4, 2, 5, 3)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)
