"""Numbers that an int which changes chooses from a list, tuple or dict."""

from __future__ import annotations

import statistics

import pytest
import torch

import stator
from tests.harness import check

RATES = [0.5, 0.25, 4.0, 1.5, -0.0, 9.0, 2.0]
WIDTHS = [3, 1, 4, 15, 5, 9, 2]
BY_STEP = {0: 0.5, 10: 0.25, 20: 0.125, 40: 0.75, 80: -2.5}
COUNTS = {3: 2, 5: 4, 9: 8, -4: 6, 20: 3}
PLACES = (2, 0, 1, 3, 4, 5, 6)

PROGRAMS = {
    "floats": (lambda x, k: x * RATES[k], PLACES),
    "ints": (lambda x, k: (x * WIDTHS[k], torch.zeros(WIDTHS[k] + 1), x[: WIDTHS[k]], WIDTHS[k]), PLACES),
    "a tuple": (lambda x, k: x * (0.1, 0.2, 0.3, 0.4)[k] + (7, 8, 9, 10)[k], (2, 0, 1, 3)),
    "from the end": (lambda x, k: x * RATES[k] + WIDTHS[k], (-3, -2, -5, -1, -7)),
    "a dict": (lambda x, k: (x * BY_STEP[k], BY_STEP[k]), tuple(BY_STEP)),
    "ints of a dict": (lambda x, k: (x.view(COUNTS[k], -1), COUNTS[k] * 2), (3, 9, 5, -4, 20)),
    "made inside": (lambda x, k: x * sorted(RATES)[k] + [w * 2 for w in WIDTHS][k], PLACES),
    "calculated": (lambda x, k: x * RATES[k // 2] + int(RATES[k // 2] * 4) + WIDTHS[k - 1] ** 2, (3, 4, 5, 6, 1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_for_all_keys(name):
    program, keys = PROGRAMS[name]
    calls = [(torch.arange(24.0), k) for k in keys]
    check(program, vary=calls, backend="eager", expect_recompiles=1, expect_graphs=None)


def test_traced():
    def program(x, k):
        return x * RATES[k] + WIDTHS[k], x.new_ones(WIDTHS[k] + 2)

    calls = [(torch.arange(24.0), k) for k in PLACES]
    check(program, vary=calls, backend="aot_eager", expect_recompiles=1, expect_graphs=None)


def test_a_branch_is_guarded_by_its_side():
    def program(x, k):
        return x + 1 if (0.5, 0.25, 4.0, 1.5, 0.75)[k] < 1 else x - 1

    calls = [(torch.ones(2), k) for k in (4, 0, 1, 2, 3, 0)]
    check(program, vary=calls, backend="eager", expect_recompiles=2, expect_graphs=None)


@pytest.mark.parametrize("table", [RATES, WIDTHS, BY_STEP, COUNTS], ids=["floats", "ints", "dict", "counts"])
@pytest.mark.parametrize("used", [True, False])
def test_a_key_that_is_not_there_raises(table, used):
    keys = list(table) if type(table) is dict else [3, 2, 5]

    def program(x, k):
        try:
            number = table[k]
        except LookupError as error:
            return type(error), str(error)
        return x * number if used else x + 1

    calls = [(torch.ones(2), k) for k in (*keys[:3], 99, -99, 7, keys[0], -7, -8)]
    check(program, vary=calls, backend="eager", expect_recompiles=None, expect_graphs=None, expect_breaks=None)


def test_what_the_table_has_is_guarded():
    rates, counts = [0.5, 0.25, 4.0, 1.5], {2: 1, 3: 2, 4: 3}

    def program(x, k):
        return x * rates[k] + counts[k + 1]

    compiled = stator.compile(program, backend="eager")
    for k in (2, 1, 3):
        assert torch.equal(compiled(torch.ones(2), k), program(torch.ones(2), k))
    rates[1], counts[4] = 8.0, 7
    for k in (1, 3, 2):
        assert torch.equal(compiled(torch.ones(2), k), program(torch.ones(2), k))
    rates.append(3)
    counts[5] = 2.5
    for k in (1, 4, 3, 2):
        assert torch.equal(compiled(torch.ones(2), k), program(torch.ones(2), k))


def test_the_program_writes_to_the_table():
    def program(x, k):
        table = [1.0, 2.0, 3.0, 4.0]
        first = table[k]
        table[2] = 9.0
        return x * first + table[k]

    check(program, vary=[(torch.ones(2), k) for k in (1, 2, 3, 0)], expect_recompiles=1, expect_graphs=None)


LISTS = [[float((7 * i + 3 * j * j) % 11) for j in range(5)] for i in range(8)]


@pytest.mark.parametrize(
    "program",
    [
        lambda x, rates, k: x * sorted(rates)[len(rates) // 2],
        lambda x, rates, k: (x * sum(sorted(rates)[-3:]), sorted(rates)),
        lambda x, rates, k: x * sorted(rates)[k] + rates[-k],
        lambda x, rates, k: x * statistics.median(rates),
    ],
)
def test_floats_that_vary_in_order(program):
    calls = [(torch.arange(4.0), rates, 2 + i % 3) for i, rates in enumerate(LISTS)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=None)


def test_sorted_as_python_sorts():
    calls = [(torch.ones(2), [1.0, float("nan"), 0.5 * i, -0.0, 0.0]) for i in range(5)]
    check(lambda x, rates: (x, sorted(rates)), vary=calls, expect_recompiles=1, expect_graphs=None)


def test_a_place_that_is_not_there():
    calls = [(torch.ones(2), rates, k) for rates, k in zip(LISTS, (2, 3, 4, 5, -5, -6, 1, 9), strict=True)]
    check(lambda x, rates, k: x * rates[k], vary=calls, fullgraph=False, expect_recompiles=None)
