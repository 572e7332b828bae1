"""Branches on data that only choose between numbers are no breaks, nor are tests of tensors full of constants."""

import pytest
import torch

import stator
from tests.breaks.test_counts import graphs
from tests.harness import check

ONES, SIGNS = torch.ones(4), torch.tensor([1.0, -2.0, 0.5, -0.25])
INPUTS = [(ONES,), (-ONES,), (SIGNS,), (SIGNS.flip(0) * 3,), (torch.zeros(4),)]


def constants(x):
    return x * (1.0 if x.sum().item() > 0 else -1.0)


def signed_zero(x):
    r = 0.0 if x[0] > 0 else -0.0
    return r, x * r


def counted(x):
    hits = 0
    for part in x:
        if part > 0:
            hits += 1
    return hits, x * hits


def best_of(x):
    best, at = -1e9, -1
    for i in range(4):
        value = x[i].item()
        if value > best:
            best, at = value, i
    return best, at


def ladder(x):
    value = x.sum().item()
    if value > 1:
        k = 3
    elif value > 0:
        k = 2
    else:
        k = 1
    return k, x * k


def flags(x):
    found, other = False, True
    for part in x:
        if part > 0.75:
            found = True
        else:
            other = False
    return found, other, x + 1


def flipped(x):
    sign = 1
    for i in range(3):
        if x[i].item() > 0:
            sign = -sign
    return sign


def both(x):
    n, a, b = 0, x[0].item(), x[1].item()
    if a > 0 and b > 0:
        n = 1
    if a > 0 or b > 0:
        n += 2
    return n


def truth_of_numbers(x):
    n = int(x[0])
    return (2 if n else 3), (0.5 if x[1].item() else 0.25), x


def nested(x):
    a, b = x[0].item(), x[1].item()
    r = 0.0
    if a > 0:
        r = 1.0
        if b > 0:
            r = r + a
        else:
            r -= b
    return r


def one_after_the_other(x):
    a, n = x.sum().item(), 0
    if a > 0:
        n += 1
    if a > 1:
        n += 2
    if a > 2:
        n += 4
    if a > 3:
        n += 8
    if a < 5:
        n -= 1
    if a < 4:
        n -= 2
    if a < -1:
        n *= 3
    if a < -3:
        n *= 5
    return n


def at_the_end_of_a_loop(x):
    n, total = 0, 0.0
    for i in range(4):
        total += i
        if x[i] < 0:
            n -= 2
    return n, total


def used_as_size(x):
    k = 2 if x.sum() > 0 else 3
    return x[:k]


WHOLE = [
    constants, signed_zero, counted, best_of, ladder, flags, flipped, both, truth_of_numbers, nested,
    one_after_the_other, at_the_end_of_a_loop, used_as_size,
]  # fmt: skip


@pytest.mark.parametrize("program", WHOLE)
def test_the_graph_chooses(program):
    check(program, vary=INPUTS, expect_graphs=1)


def test_other_backends_choose_too():
    compiled = stator.compile(lambda x: (*best_of(x), *counted(x)), fullgraph=True, backend="aot_eager")
    for (x,) in INPUTS:
        result = compiled(x)
        expected = *best_of(x), *counted(x)
        assert result[:3] == expected[:3] and torch.equal(result[3], expected[3])


def of_two_types(x):
    r = 1.0 if x.sum() > 0 else 0
    return r, x * r


def none_or_number(x):
    r = None
    if x.sum() > 0:
        r = 1.0
    return r, x * 2


def perhaps_unbound(x):
    if x.sum() > 0:
        r = 1.0
    try:
        return r, x * 2
    except UnboundLocalError:
        return x


def one_side_fails(x):
    n = x.sum().item()
    try:
        return 1 / n if n > 0 else 1 / 0
    except ZeroDivisionError:
        return x


def too_large(x):
    n = 10**400 if x.sum() > 0 else 1
    return str(n)[:3], x + 1


def text(x):
    return "up" if x.sum() > 0 else "down"


def objects(x):
    y = x + 1
    z = y if x.sum() > 0 else x
    return z is x, z * 2


@pytest.mark.parametrize(
    "program", [of_two_types, none_or_number, perhaps_unbound, one_side_fails, too_large, text, objects]
)
def test_other_choices_are_breaks(program):
    check(program, vary=INPUTS, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)


def stops_early(x):
    best, bad = 1e9, 0
    for i in range(8):
        x = x * 0.9 - 0.1
        loss = x.sum().item()
        if loss < best - 0.5:
            best, bad = loss, 0
        else:
            bad += 1
        if bad >= 2:
            break
    return x, i, bad, best


def test_a_loop_that_ends_when_nothing_improves():
    check(stops_early, vary=INPUTS, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)


def until_done(x):
    done, n = torch.zeros(4, dtype=torch.bool), 0
    while not done.all() and n < 5:
        x = x * 0.5 + 0.1
        done = done | (x < 0.3)
        n += 1
    return x, n


def while_any(x):
    total, n = torch.zeros_like(x), 0
    while (total < 1).any() and n < 4:
        total, n = total + x.abs(), n + 1
    return total, n


def counter(x):
    i = torch.tensor(0)
    while i < 3:
        x, i = x * 2, i + 1
    return x, i


def written(x):
    mask = torch.ones(4)
    mask[0] = 0
    return x * 2 if mask.all() else x * 3


@pytest.mark.parametrize("program, breaks", [(until_done, 1), (while_any, 1), (counter, 0), (written, 1)])
def test_tests_of_constants(program, breaks):
    calls = [(ONES,), (ONES,)] if breaks else INPUTS
    report = check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)
    assert report.compiled and bool(report.gained("graph_breaks")) == bool(breaks)


def masked(x, p):
    shape = (x.shape[0], 2)
    mask = torch.ones(shape) > 0 if p == 1 else torch.full((len(x) - 1,), 0.5) < 0
    if mask.all():
        return x * 2
    return x.sin() if (~mask).any() else x


def uneven(x, p):
    where = torch.arange(2) + torch.zeros(len(x), 2)
    x = x * 2 if where.amax() > 0 else x
    return x * 3 if torch.ones(len(x)).sum() > 4 else x


@pytest.mark.parametrize("program, breaks", [(masked, False), (uneven, True)])
def test_tests_of_constants_of_any_size(program, breaks):
    sizes = [4, 5, 7, 3, 1]
    calls = [(torch.ones(n, 2), p) for p in (1, 0) for n in sizes]
    report = check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)
    assert bool(report.gained("graph_breaks")) == breaks


@pytest.mark.parametrize("program, x", [(until_done, ONES * 2), (while_any, ONES * 0.4)])
def test_a_loop_whose_first_test_is_known_has_one_graph(program, x):
    check(program, x, fullgraph=False, expect_graphs=1, expect_recompiles=None, expect_breaks=None)


def turned(x):
    flag, n = torch.zeros(()), 0
    while True:
        if flag > 2 or n > 6:
            break
        x, flag, n = (x * 1.5).sin() + 0.5, flag + x.abs().max(), n + 1
    return x, n


def worked_before(x):
    x = (x.sin() + 2).cos() * x
    return while_any(x)


@pytest.mark.parametrize(("program", "number"), [(turned, 1), (worked_before, 2)])
def test_so_has_one_with_the_test_inside_unless_there_is_work_before_it(program, number):
    made, _ = graphs(lambda: program, [(ONES,), (ONES * 2,)])
    assert made == number


def carried(x):
    last, total = 0.0, 0
    for i in range(6):
        x = x * 0.5
        stator.graph_break()
        last = 1.5 if x[i % 4].item() > 0 else 2.5 + i
        total += 1 if last > 2 else 2
    return x * last, total


def test_a_number_that_is_replaced_does_not_matter():
    check(carried, vary=INPUTS, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)
