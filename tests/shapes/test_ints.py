"""Ints that change become symbols, wherever they come from."""

from __future__ import annotations

import bisect
import collections
import heapq

import pytest
import torch

import stator
from tests.harness import check

VALUES = (2, 3, 4, 5, 8)


def test_arguments():
    def program(x, n):
        return x * n + n, x[:n], torch.zeros(n, 2), n * 2 + 1, n // 2, n - 3, -n, x.narrow(0, 0, n), x.roll(n)

    check(program, vary=[(torch.arange(12.0), n) for n in VALUES], expect_recompiles=1, expect_graphs=2)


def test_negative_and_zero():
    check(lambda x, n: x + n, vary=[(torch.ones(3), n) for n in (-2, 0, 1, -7)], expect_recompiles=1, expect_graphs=2)


def test_distances():
    """Whether one lies before or behind another does not matter."""

    def program(x, n):
        return x * abs(n - 4), x[: abs(4 - n) + 1], abs(-n) + abs(n), torch.zeros(abs(n - 20))

    check(program, vary=[(torch.arange(12.0), n) for n in (8, 3, 6, 2, 9, 5)], expect_recompiles=1, expect_graphs=2)


def test_a_function_named_like_a_keyword():
    def program(x, n):
        return x * n

    program.__code__ = program.__code__.replace(co_name="lambda")
    check(program, vary=[(torch.ones(3), n) for n in VALUES], expect_recompiles=1, expect_graphs=2)


def test_huge_ints_stay_constants():
    calls = [(torch.ones(3), n) for n in (3, 1 << 70, 4, 5, (1 << 63) - 1)]
    check(lambda x, n: (x, n * 2, n % 7), vary=calls, expect_recompiles=None, expect_graphs=None)


def test_containers():
    def program(x, config):
        return x[: config["k"][0]] * config["k"][0]

    vary = [(torch.arange(12.0), {"k": [n]}) for n in VALUES]
    check(program, vary=vary, expect_recompiles=1, expect_graphs=2)


def test_an_attribute_that_counts():
    class Counter:
        step = 0

    counter = Counter()
    counter.step = 0

    def program(x):
        counter.step += 1
        return x + counter.step

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for i in range(1, 7):
        assert compiled(torch.zeros(1)).item() == i == counter.step
        assert type(counter.step) is int
    assert len(compiled.entries()) == 2


def test_counters_of_parameters():
    """As the optimizers of many projects keep them."""
    weights = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))]
    state = collections.defaultdict(dict)

    def program(rate):
        for weight in weights:
            own = state[weight]
            own.setdefault("step", 0)
            own["step"] += 1
            weight.data.add_(weight.data, alpha=-rate / (1 - 0.9 ** own["step"]))

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    expected = torch.ones(1)
    for i in range(1, 7):
        compiled(0.1)
        expected = expected.add(expected, alpha=-0.1 / (1 - 0.9**i))
        assert [own["step"] for own in state.values()] == [i, i]
        assert all(torch.equal(weight, expected.expand_as(weight)) for weight in weights)
    assert len(compiled.entries()) <= 3


def test_a_closure_that_counts():
    count = 0

    def program(x):
        nonlocal count
        count += 1
        return x + count

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for i in range(1, 7):
        assert compiled(torch.zeros(1)).item() == i == count
    assert len(compiled.entries()) == 2


GLOBAL = 0


def test_a_global():
    global GLOBAL
    compiled = stator.compile(lambda x: x + GLOBAL, backend="eager", fullgraph=True)
    for GLOBAL in range(5):
        assert compiled(torch.zeros(1)).item() == GLOBAL
    assert len(compiled.entries()) == 2


def test_loops_are_unrolled_per_count():
    def program(x, n):
        for i in range(n):
            x = x * 2 + i
        return x

    check(program, vary=[(torch.ones(3), n) for n in (2, 3, 4, 3, 4)], expect_recompiles=2, expect_graphs=3)


def test_a_bool_is_no_int():
    vary = [(torch.ones(3), flag) for flag in (2, 3, True, 4, False)]
    check(lambda x, n: (x + n, n is True), vary=vary, expect_recompiles=3, expect_graphs=4)


def test_division_by_zero_raises():
    check(
        lambda x, n: x + 7 // n,
        vary=[(torch.ones(3), n) for n in (2, 3, 0, 5)],
        expect_recompiles=None,
        expect_graphs=None,
    )


def test_dynamic_true():
    vary = [(torch.arange(12.0), n) for n in VALUES]
    check(lambda x, n: x[:n] * n, vary=vary, expect_recompiles=0, expect_graphs=1, dynamic=True)


@pytest.mark.parametrize("kind", [dict.fromkeys, set, frozenset, collections.Counter])
def test_keys(kind):
    """Whether a number is a key is guarded by the keys that it is not, and does not fix it."""
    keys = kind([3, 7])
    compiled = stator.compile(lambda x, n: x * 2 if n in keys else x + n, backend="eager", fullgraph=True)
    for n in (1, 2, 4, 5, 6, 8, 9, 3, 7, 3):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * 2 if n in keys else torch.ones(2) + n)
    assert len(compiled.entries()) == 4


def test_keys_of_a_class_of_its_own():
    class Even(dict):
        def __contains__(self, key):
            return key % 2 == 0

    keys = Even({3: 1})
    compiled = stator.compile(lambda x, n: x * 2 if n in keys else x + n, backend="eager")
    for n in (1, 2, 3, 4, 5):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * 2 if n % 2 == 0 else torch.ones(2) + n)


def test_places_in_sorted_lists():
    """Which of some ranges a number lies in is what is guarded."""
    borders = [4, 8, 12]

    def program(x, n, rate):
        queue = [9, n]
        heapq.heapify(queue)
        place = bisect.bisect_right(borders, n)
        return x * place + bisect.bisect([0.5], rate), borders[place], queue, bisect.bisect_left(borders, len(x))

    calls = [(torch.ones(s), n, r) for n, s, r in ((5, 2, 0.1), (6, 3, 0.2), (7, 4, 0.3), (5, 3, 0.4), (7, 2, 0.25))]
    report = check(program, vary=calls, expect_recompiles=None, expect_graphs=None)
    assert report.gained("frames_captured") == 2


WINDOWS = [(4, 9, 5), (2, 5, 3), (7, 12, 7), (9, 6, 9), (6, 8, 8), (3, 2, 11)]


def test_windows_that_may_be_longer_than_the_data():
    def program(x, n):
        return x[:, :n] * 2, x[:, -n:].sum(1), x[:, :n].softmax(-1).mean((0, 1))

    check(program, vary=[(torch.randn(b, s, 4), n) for b, s, n in WINDOWS], expect_recompiles=1, expect_graphs=2)


def test_the_length_of_a_slice_is_what_python_says():
    def program(x, n):
        return x[: n + 1].shape[0], x[-n:].shape[0], x[n:].shape[0], len(x[n : n + 3]), x[:-n].shape[0]

    vary = [(torch.arange(s), n) for s in (5, 6, 8) for n in (2, 3, 5, 7, 8, 9, 12)]
    check(program, vary=vary, fullgraph=False, expect_recompiles=None, expect_graphs=None)


def test_windows_along_a_dimension():
    def program(x, size, step):
        return x.unfold(-1, size, step).mean(-1), x.unfold(0, 2, 1).shape

    vary = [(torch.randn(4, 40), size, 1 + size // 2) for size in (5, 3, 7, 4, 9)]
    check(program, vary=vary, expect_recompiles=1, expect_graphs=2)


def test_loops_over_a_range_are_told_by_their_rounds():
    def program(x, n):
        length = x.shape[0]
        parts = [x[start : min(start + 4, length)].cumsum(0) for start in range(0, length, 4)]
        for i in range(n, n + 2):
            x = x + i
        return torch.cat(parts), x, [i for i in range(length, 0, -5)]

    vary = [(torch.randn(s), n) for s, n in ((9, 3), (10, 4), (6, 5), (8, 6), (7, 9))]
    check(program, vary=vary, expect_recompiles=2, expect_graphs=None)


def test_ranges_that_are_seen():
    def program(x, n):
        return x + n, range(0, n, 4), repr(range(n, 0, -3)), [*range(0, n, 5)]

    vary = [(torch.ones(2), n) for n in (5, 6, 7, 0, -3)]
    check(program, vary=vary, expect_recompiles=None, expect_graphs=None)


def test_loops_over_chunks_are_unrolled():
    def program(x):
        return torch.cat([part.cumsum(1) for part in x.chunk(3, 1)], 1), [y.sin() for y in torch.chunk(x, 2, dim=0)]

    vary = [(torch.randn(b, n, 4),) for b, n in ((4, 12), (6, 9), (8, 15), (10, 8))]
    check(program, vary=vary, fullgraph=False, expect_breaks=0, expect_recompiles=1, expect_graphs=2)
