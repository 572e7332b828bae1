"""Bits, powers and the like of ints that change: arithmetic, or symbols that C calculates."""

from __future__ import annotations

import math

import pytest
import torch

from stator.shapes.bits import BITS
from tests.harness import check

VALUES = (5, 6, 7, 8, 12, 17)


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_bits_that_a_constant_chooses_are_arithmetic(function):
    for mask in (*range(-40, 41), 255, 0xFF00, -256, (1 << 31) - 1):
        for number in (*range(-70, 71), 12345, -98765):
            made = BITS[function](number, mask)
            assert made is None or made == function(number, mask)


PROGRAMS = {
    "bits": lambda x, n: (x * (n | 1), n & 6, n ^ 5, x[: 1 | n], 12 & n, n & -4, (n + 7) & ~7, n | -2),
    "shifts": lambda x, n: (n << 2, n >> 1, 1 << n, 1000 >> n, n << (n & 3)),
    "next power of two": lambda x, n: torch.nn.functional.pad(x, (0, (1 << (n - 1).bit_length()) - n)),
    "powers": lambda x, n: (2**n, n**n % 7, x * 2 ** (n >> 2), 3 ** (n // 4), torch.zeros(2 ** (n // 6))),
    "counts": lambda x, n: (n.bit_length(), n.bit_count(), (-n).bit_length(), x * math.isqrt(n)),
    "divisors": lambda x, n: (math.gcd(n, 12), math.gcd(n, n + 6), x.view(math.gcd(n, 12) * 2, -1)),
    "two numbers": lambda x, n: (n & (n - 1), n | (n >> 1), n ^ (n >> 1), x * (n & -n)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_for_all_values(name):
    values = (n for n in VALUES if n <= 12) if name == "powers" else VALUES
    calls = [(torch.arange(24.0), n) for n in values]
    check(PROGRAMS[name], vary=calls, backend="eager", expect_recompiles=1, expect_graphs=None)


def test_sizes():
    def program(x):
        n = x.shape[0]
        return torch.zeros(1 << (n - 1).bit_length(), 2), x[: n & ~1].view(2, -1), x.new_ones(2 ** n.bit_length() + n)

    calls = [(torch.ones(n),) for n in (5, 6, 7, 12, 33)]
    check(program, vary=calls, backend="aot_eager", expect_recompiles=1, expect_graphs=None)


def test_negative_numbers_and_what_python_refuses():
    def program(x, n):
        try:
            return x + 1, 2**n, n.bit_length(), n & 7, n >> 1, n | 4, math.isqrt(n), 1 << n
        except ValueError as error:
            return str(error)

    calls = [(torch.ones(2), n) for n in (5, 7, -3, -8, 3, 70, 61, 62, 63, -64, 4)]
    check(program, vary=calls, backend="eager", expect_recompiles=None, expect_graphs=None, expect_breaks=None)


def test_a_power_is_a_float_where_the_exponent_is_negative():
    def program(x, n):
        return x * 2**n, 2**n, n**n

    check(program, vary=[(torch.ones(2), n) for n in (5, 3, -2, -3, 4)], expect_recompiles=2, expect_graphs=None)
