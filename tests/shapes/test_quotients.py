"""Quotients and remainders of symbolic sizes: values, what is known without a guard, and sweeps that need it."""

from __future__ import annotations

import operator
import random

import pytest
import sympy
import torch
import torch.nn.functional as F

from stator.guards import path as paths
from stator.shapes.symbols import Symbols
from tests.harness import check
from tests.shapes.test_numbers import guards, sizes

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def drawn(rng, numbers):
    """A number made of others, as a symbolic int and as a function of the sizes."""
    (a, of_a), (b, of_b) = rng.choice(numbers), rng.choice(numbers)
    divisor, factor = rng.choice((1, 2, 3, 4, 6, 8)), rng.choice((-4, -1, 1, 2, 3))
    return rng.choice(
        [
            lambda: (a + b, lambda values: of_a(values) + of_b(values)),
            lambda: (a - b, lambda values: of_a(values) - of_b(values)),
            lambda: (a * b, lambda values: of_a(values) * of_b(values)),
            lambda: (a * factor, lambda values: of_a(values) * factor),
            lambda: (a + factor, lambda values: of_a(values) + factor),
            lambda: (a // divisor, lambda values: of_a(values) // divisor),
            lambda: (a % divisor, lambda values: of_a(values) % divisor),
        ]
    )()


@pytest.mark.parametrize("seed", range(12))
def test_numbers_are_what_they_stand_for(seed):
    """The expression of a number has its value for all sizes, and what is known of it in any case holds for all."""
    rng = random.Random(seed)
    symbols, (a, b) = sizes(6, 11)
    names = list(symbols.sources)
    numbers = [(a, lambda values: values[0]), (b, lambda values: values[1]), (3, lambda values: 3)]
    for _ in range(40):
        made, of = drawn(rng, numbers)
        number = made if type(made) is int else made.number
        if abs(of((6, 11))) > 10**6 or (type(number) is not int and len(number.terms) > 8):
            continue
        known = [(f, f(0, 1), symbols.unknowns.known(f, number, border)) for f in COMPARISONS for border in (0, 1)]
        verdicts = [symbols.unknowns.known(f, number, border) for f in COMPARISONS for border in (0, 1)]
        assert len(known) == len(verdicts)
        for values in ((6, 11), (2, 2), (3, 9), (7, 4), (16, 5), (33, 1000)):
            at = dict(zip(names, map(sympy.Integer, values), strict=True))
            assert symbols.unknowns.at(number, at) == of(values)
            questions = [f(of(values), border) for f in COMPARISONS for border in (0, 1)]
            assert all(verdict in (None, answer) for verdict, answer in zip(verdicts, questions, strict=True))
        numbers.append((made, of))
    assert guards(symbols) == 0


def test_equal_quotients_are_equal_without_a_guard():
    symbols, (n, m) = sizes(50, 70)
    assert (n - 4) // 4 + 1 == n // 4 and (n // 2) // 3 == n // 6 and -(-n // 8) == (n + 7) // 8
    assert ((n + 1) // 2 + 1) // 2 == (n + 3) // 4 and (4 * n + 2) // 4 == n and (6 * n + 3) // 9 == (2 * n + 1) // 3
    assert n // 4 * 4 + n % 4 == n and 0 <= n % 4 < 4 and n // 4 * 4 <= n and (n + 3) // 4 * 4 >= n
    pad = (8 - n % 8) % 8
    assert (n + pad) % 8 == 0 and (n + pad) // 8 == -(-n // 8) and 0 <= pad < 8
    assert (n + pad) * m // 8 == (n + 7) // 8 * m
    assert guards(symbols) == 0


def test_what_is_found_out_about_a_quotient_counts_for_what_it_is_of():
    symbols, (n, m) = sizes(50, 70)
    assert n // 4 > 2
    assert guards(symbols) == 1
    assert n >= 12 and n // 6 >= 2 and (n + 1) // 2 > 5
    assert m % 4 != 0 and m % 4 > 0 and not m % 4 == 0
    assert guards(symbols) == 2


def test_a_multiple_is_the_divisor_times_the_quotient():
    symbols, (n, m) = sizes(48, 70)
    assert n % 4 == 0
    assert guards(symbols) == 1
    assert n // 4 * 4 == n and n // 4 * 4 * m == n * m and n * m // 4 == n // 4 * m
    assert guards(symbols) == 1


def test_remainders_are_written_as_such():
    symbols, (n, _) = sizes(50, 70)
    texts = [str(symbols.expr(made.number)) for made in (n % 4, (8 - n % 8) % 8, n + (-n) % 3)]
    assert texts[0].startswith("Mod(") and all(text.count("Mod") + text.count("//") == 1 for text in texts), texts


def padded(x):
    """Padded to a multiple, cut into windows, and back."""
    b, n, d = x.shape
    x = F.pad(x, (0, 0, 0, (4 - n % 4) % 4))
    windows = x.view(b, x.shape[1] // 4, 4, d)
    y = (windows - windows.mean(2, keepdim=True)).reshape(b, -1, d)
    return y[:, :n], windows.flatten(0, 1)


def pooled(x):
    """Halved with the ends rounded up, several times."""
    parts = [x]
    while len(parts) < 4:
        parts.append(F.avg_pool2d(parts[-1][None], (1, 2), ceil_mode=False)[0] + parts[-1][:, 1::2].mean())
    return parts[-1].shape[-1], torch.cat(parts, 1)


def smallest(x):
    sides = [x.shape[0], x.shape[1]]
    return x[: min(sides), : max(x.shape[1] - 100, 1)] * max(tuple(sides)), max(sides) - min(sides)


@pytest.mark.parametrize(
    ("program", "shapes"),
    [
        (padded, [(b, n, 3) for b, n in zip((2, 3, 4, 5, 2, 7, 3, 9), (9, 11, 6, 16, 21, 30, 5, 8), strict=True)]),
        (pooled, [(3, n) for n in (17, 24, 31, 40, 19, 33, 50)]),
        (smallest, [(5, 9), (9, 5), (6, 7), (8, 2), (3, 11), (4, 20)]),
    ],
)
def test_sweeps(program, shapes):
    report = check(program, vary=[(torch.randn(shape),) for shape in shapes], expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


def test_minima_and_maxima_lie_beyond_their_numbers():
    symbols = Symbols(lambda: None)
    n = symbols.integer(paths.arg(0), 9)
    least, most = symbols.compute(torch.sym_min, n, 12), symbols.compute(torch.sym_max, n, 3)
    for smaller, larger in ((least, n), (least, 12), (n, most), (3, most), (5 * least, 5 * n), (least - n, 0)):
        assert symbols.settled(operator.le, smaller, larger) is True
    assert symbols.settled(operator.ge, least, n) is None
    assert symbols.compare(operator.ge, n, 8) is True
    assert symbols.settled(operator.ge, least, 8) is True and symbols.settled(operator.ge, most, 8) is True
    assert len(symbols.env.guards) == 1


def test_products_that_are_equal_factor_by_factor():
    """`h * w == 49 * (h // 7) * (w // 7)` holds only where both are multiples of 7: no quotient is left afterwards."""
    symbols, (h, w) = sizes(56, 84)
    rows, columns = (h + 3) // 4, (w + 1) // 2
    assert rows * columns == 49 * (rows // 7) * (columns // 7)
    asked = guards(symbols)
    assert rows % 7 == 0 and columns == 7 * (columns // 7)
    assert (3 * 49 * (rows // 7) * (columns // 7)) // (rows * columns) == 3
    assert guards(symbols) == asked == 1


def test_products_that_are_equal_by_chance_say_nothing_of_their_factors():
    symbols, (h, w) = sizes(12, 6)
    assert h * w == 18 * (h // 3)
    asked = guards(symbols)
    assert h % 3 == 0
    assert guards(symbols) == asked + 1


def test_windows_of_an_image_and_back():
    """The batch that is left by `-1` is the batch, not a quotient of quotients."""

    def attend(x, rounds=4):
        for _ in range(rounds):
            b, h, w, c = x.shape
            windows = x.view(b, h // 7, 7, w // 7, 7, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 49, c)
            back = windows.softmax(1).view(-1, h // 7, w // 7, 7, 7, c)
            x = x + back.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, h, w, c)
        return x

    vary = [(torch.randn(b, 7 * h, 7 * w, 3),) for b, h, w in ((2, 2, 3), (3, 4, 2), (5, 3, 3), (2, 5, 4))]
    report = check(attend, vary=vary, expect_recompiles=None, expect_graphs=2)
    assert report.gained("frames_captured") == 2
