"""Integers that are polynomials in unknowns: canonical, so that equal ones compare equal, and cheap to calculate with.

A number is an int, or a `Polynomial` that is none. A monomial is a sorted tuple of unknowns, each as often as its
power; an unknown is a number of its own, see `shapes.unknowns`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

Monomial = tuple[int, ...]
Number = Any  # int or Polynomial
FEW_TERMS = 8  # that are taken one by one
Linear = tuple[tuple[int, ...], tuple[int, ...], int]


class Polynomial:
    """Coefficients by monomial, none of them zero; immutable."""

    __slots__ = ("_hash", "_linear", "_unknowns", "bounds", "expr", "settled", "terms")

    terms: dict[Monomial, int]

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))
        self.expr: Any = None  # the same in sympy, once somebody asked
        self.bounds: Any = None  # its least and largest value as far as known, once somebody asked
        self.settled: Any = None  # (count of replacements, what it is then)
        self._unknowns: frozenset[int] | None = None
        self._linear: Linear | bool | None = False

    @property
    def linear(self) -> Linear | None:
        """Its unknowns, their coefficients, and the constant; None if some are multiplied with each other."""
        if self._linear is False:
            self._linear = None
            if max(map(len, self.terms)) < 2:
                terms = dict(self.terms)
                constant = terms.pop((), 0)
                self._linear = tuple(itertools.chain.from_iterable(terms)), tuple(terms.values()), constant
        return self._linear  # type: ignore[return-value]

    @property
    def unknowns(self) -> frozenset[int]:
        """The unknowns it is made of."""
        if self._unknowns is None:
            self._unknowns = frozenset(itertools.chain.from_iterable(self.terms))
        return self._unknowns

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Polynomial and other.terms == self.terms)

    def __repr__(self) -> str:
        return " + ".join("*".join([str(c), *(f"u{u}" for u in m)]) for m, c in self.terms.items())


def unknown(index: int) -> Polynomial:
    """One unknown by itself."""
    return Polynomial({(index,): 1})


def made(terms: dict[Monomial, int]) -> Number:
    """The number with these coefficients."""
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Polynomial(terms)


def terms_of(number: Number) -> dict[Monomial, int]:
    """The coefficients of a number."""
    if type(number) is Polynomial:
        return number.terms
    return {(): number} if number else {}


def add(a: Number, b: Number, times: int = 1) -> Number:
    """a + times * b."""
    if type(a) is int and type(b) is int:
        return a + times * b
    terms, others = terms_of(a), terms_of(b)
    if len(others) > FEW_TERMS and times == -1 and len(terms) > FEW_TERMS:  # most of two long sums may be the same
        terms, others = _apart(terms, others)
    if len(others) > len(terms):
        terms, others, times = {monomial: times * c for monomial, c in others.items()}, terms, 1
    else:
        terms = dict(terms)
    for monomial, c in others.items():
        total = terms.get(monomial, 0) + times * c
        if total:
            terms[monomial] = total
        else:
            del terms[monomial]
    return made(terms)


def total(numbers: Iterable[Number]) -> Number:
    """The sum of all."""
    terms: dict[Monomial, int] = {}
    for number in numbers:
        for monomial, c in terms_of(number).items():
            terms[monomial] = terms.get(monomial, 0) + c
    return made({monomial: c for monomial, c in terms.items() if c})


def _apart(left: dict[Monomial, int], right: dict[Monomial, int]) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """Both without the terms that they have in common."""
    return dict(sorted(left.items() - right.items())), dict(sorted(right.items() - left.items()))


def subtract(a: Number, b: Number) -> Number:
    """a - b."""
    return add(a, b, -1)


def multiply(a: Number, b: Number) -> Number:
    """a * b."""
    if type(a) is int:
        if type(b) is int:
            return a * b
        a, b = b, a
    if type(b) is int:
        if b == 1:
            return a
        return Polynomial({monomial: b * c for monomial, c in a.terms.items()}) if b else 0
    terms: dict[Monomial, int] = {}
    for left, c in a.terms.items():
        for right, d in b.terms.items():
            monomial = tuple(sorted(left + right))
            terms[monomial] = terms.get(monomial, 0) + c * d
    return made({monomial: c for monomial, c in terms.items() if c})


def growth(a: Number, b: Number) -> int:
    """How much longer than its parts a * b is: with one term on one side only that term is."""
    left, right = terms_of(a), terms_of(b)
    if not left or not right:
        return 0
    degree = max(map(len, left)) + max(map(len, right)) if type(a) is type(b) else 0
    return max(degree * DEGREES, len(left) * len(right) if len(left) > 1 and len(right) > 1 else 0)


DEGREES = 4  # terms that are as bad as a higher degree


def power(a: Number, exponent: int) -> Number:
    """a ** exponent, for a small exponent."""
    result: Number = 1
    for _ in range(exponent):
        result = multiply(result, a)
    return result


def quotient(a: Number, b: Number) -> Number | None:
    """a / b if that is a polynomial again; b is not zero."""
    if len(terms_of(b)) != 1:
        return _divided(a, b)
    ((divisor, d),) = terms_of(b).items()
    terms: dict[Monomial, int] = {}
    for monomial, c in terms_of(a).items():
        rest = without(monomial, divisor)
        if rest is None or c % d:
            return None
        terms[rest] = c // d
    return made(terms)


def _divided(a: Number, b: Number) -> Number | None:
    """Long division by several terms, largest first."""
    lead, d = max(terms_of(b).items(), key=_rank)
    left, terms = a, dict[Monomial, int]()
    while left != 0:
        monomial, c = max(terms_of(left).items(), key=_rank)
        rest = without(monomial, lead)
        if rest is None or c % d or len(terms) >= MOST_STEPS:
            return None
        terms[rest] = c // d
        left = subtract(left, multiply(b, made({rest: c // d})))
    return made(terms)


def _rank(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    """Of terms: by degree, then by unknowns."""
    return len(term[0]), term[0]


MOST_STEPS = 64


def without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial divided by another one; None if it is no multiple of it."""
    if not divisor:
        return monomial
    left = list(monomial)
    for index in divisor:
        if index not in left:
            return None
        left.remove(index)
    return tuple(left)


def content(a: Polynomial) -> tuple[int, Monomial]:
    """What divides all terms: the largest factor, and the largest monomial."""
    monomials = iter(a.terms)
    common = list(next(monomials))
    for monomial in monomials:
        if not common:
            break
        left = list(monomial)
        shared = []
        for index in common:
            if index in left:
                left.remove(index)
                shared.append(index)
        common = shared
    return math.gcd(*a.terms.values()), tuple(common)
