"""Symbolic numbers: polynomials, what is known of them without a guard, and what becomes one."""

from __future__ import annotations

import operator
import random

import pytest
import torch

import stator
from stator.guards.path import arg
from stator.report.events import recording
from stator.shapes import polynomial
from stator.shapes.marks import ANY
from stator.shapes.polynomial import Polynomial
from stator.shapes.questions import NotKnown
from stator.shapes.symbols import Symbols
from tests.harness import check


def sizes(*values: int) -> tuple[Symbols, list]:
    """Symbols for the sizes of one tensor, as the program sees them."""
    symbols = Symbols(lambda: None)
    strides = [1] * len(values)
    for i in range(len(values) - 1, 0, -1):
        strides[i - 1] = strides[i] * values[i]
    made, _ = symbols.tensor(arg(0), values, strides, dict.fromkeys(range(len(values)), ANY))
    return symbols, [symbols.traced(number) for number in made]


def guards(symbols: Symbols) -> int:
    return len(symbols.env.guards)


def value(number, values: dict[int, int]) -> int:
    total = 0
    for monomial, c in polynomial.terms_of(number).items():
        for index in monomial:
            c *= values[index]
        total += c
    return total


def test_arithmetic_of_polynomials():
    rng = random.Random(0)
    values = {i: rng.randint(-9, 9) for i in range(3)}
    numbers = [polynomial.unknown(i) for i in range(3)] + [-2, 0, 3]
    for _ in range(300):
        a, b = rng.choice(numbers), rng.choice(numbers)
        for function, twin in (
            (polynomial.add, operator.add),
            (polynomial.subtract, operator.sub),
            (polynomial.multiply, operator.mul),
        ):
            made = function(a, b)
            assert value(made, values) == twin(value(a, values), value(b, values))
            assert type(made) is int or (type(made) is Polynomial and set(made.terms) != {()})
            if len(polynomial.terms_of(made)) < 6:
                numbers.append(made)
        if polynomial.terms_of(b) and (exact := polynomial.quotient(a, b)) is not None:
            assert polynomial.multiply(exact, b) == a


def test_equal_numbers_are_equal_without_a_guard():
    symbols, (a, b) = sizes(5, 7)
    assert (a + b) * a == a * a + b * a
    assert (a * b * 6) // (b * 2) == 3 * a and (a * 4) % 2 == 0
    assert a * 32 != 1 and a * b > b and 32 * a * b != b and a + b >= 4 and not a < 2
    assert max(a, 1) is a
    assert guards(symbols) == 0


def test_a_question_is_asked_once_and_raises_a_bound():
    symbols, (a, b) = sizes(5, 7)
    assert a > 3
    assert guards(symbols) == 1
    assert not a <= 3 and a * 2 > 6 and a != 3 and a * b > 3 * b
    assert guards(symbols) == 1
    half = a // 2
    assert half != 0 and half > 0
    assert guards(symbols) <= 2


def test_equal_symbols_become_one():
    symbols, (a, b) = sizes(5, 5)
    assert a == b
    before = guards(symbols)
    assert a * 3 == b * 3 and (a + 1) * b == a * a + b and symbols.traced((a - b + 4).__index__()) == 4
    assert guards(symbols) == before


def test_no_answer_where_the_call_does_not_tell():
    symbols = Symbols(lambda: None, unbacked=True)
    made = symbols.wrap(symbols.from_data(0, 100))
    with symbols.known_only():
        assert made + 1 > 0
        with pytest.raises(NotKnown):
            bool(made > 3)


def test_looking_at_a_shape_leaves_it_symbolic():
    def program(x):
        shape = x.shape
        kinds = isinstance(shape, tuple), isinstance(shape[0], torch.Tensor), isinstance(x.size(0), (int, float))
        return x.sum() * len(shape), kinds, len([*shape])

    rows = [(torch.arange(3.0 * n).reshape(n, 3),) for n in (4, 5, 6, 9)]
    check(program, vary=rows, expect_recompiles=1, expect_graphs=2)


def test_guards_grow_with_the_number_of_symbols():
    def program(xs):
        rows = 0
        for x in xs:
            rows = rows + x.shape[0]
        return torch.cat(xs).view(rows), [x * 2 if x.shape[0] > 3 else x for x in xs]

    counts = []
    for n in (10, 20, 30):
        with recording("guards") as seen:
            compiled = stator.compile(program, backend="eager", fullgraph=True, dynamic=True)
            xs = [torch.ones(5 + i) for i in range(n)]
            assert compiled(xs)[0].shape[0] == sum(map(len, xs))
            xs = [torch.ones(9 + 2 * i) for i in range(n)]
            assert compiled(xs)[0].shape[0] == sum(map(len, xs))
        (event,) = seen
        counts.append(event.count)
    assert counts[2] - counts[1] == counts[1] - counts[0]
