"""Unknowns and what their lower bounds say about numbers that are made of them."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from stator.shapes import polynomial
from stator.shapes.polynomial import Monomial, Number, Polynomial

MOST_ESTIMATES = 8  # quotients that are estimated to bound one number
MOST_CHOICES = 64  # minima and maxima put at one of their numbers to bound one number

Bounds = tuple[int | None, int | None]


class Unknown:
    """One unknown: its expression, its value in this call (None if nobody knows) or a guess, its least value, and the
    symbols it depends on; `parts`: numerator and divisor of a quotient, whose expression is made when it is needed;
    `least`, `most`: numbers that a maximum or minimum is one of; `length`: of its expression, in unknowns."""

    __slots__ = ("expr", "guess", "hint", "least", "length", "low", "most", "number", "parts", "symbols")

    def __init__(self, index: int, expr: Any, hint: int | None, guess: int | None, low: int | None) -> None:
        self.expr = expr
        self.hint = hint
        self.guess = guess
        self.low = low
        self.number = polynomial.unknown(index)
        self.parts: tuple[Polynomial, int] | None = None
        self.least: tuple[Number, ...] = ()
        self.most: tuple[Number, ...] = ()
        self.symbols: frozenset[Any] = frozenset()
        self.length = 1


class Bounding:
    """The unknowns of one capture, as far as their bounds are concerned."""

    def __init__(self) -> None:
        self.all: list[Unknown] = []
        self._users: dict[Any, list[int]] = {}  # by symbol: the unknowns whose expressions it is in
        self._facts = 0  # how often a lower bound became known
        self._choices = 0  # tried for the number that is asked about

    def bounds(self, number: Number) -> Bounds:
        """The least and the largest value that are certain from lower bounds."""
        if type(number) is int:
            return number, number
        if number.bounds is None or number.bounds[0] != self._facts:
            self._choices = 0
            number.bounds = self._facts, self._bounds(number)
        return number.bounds[1]

    def _bounds(self, number: Polynomial) -> Bounds:
        """From lower bounds of the unknowns, or where these leave it open, from what quotients are of."""
        low, high = self._from_lows(number)
        if low is None:
            low = self._least(number)
        if high is None:
            least = self._least(polynomial.multiply(number, -1))
            high = None if least is None else -least
        return low, high

    def _least(self, number: Number) -> int | None:
        if type(number) is int:
            return number
        least = self._estimated(number)
        return self._by_choice(number) if least is None else least

    def _by_choice(self, number: Polynomial) -> int | None:
        """The least value, with a minimum that is subtracted or a maximum that is added at one of its numbers."""
        found: list[int] = []
        for monomial, c in number.terms.items():
            for index in monomial:
                unknown = self.all[index]
                others: Any = polynomial.without(monomial, (index,))
                bounds = unknown.most if c < 0 else unknown.least
                if not bounds or not self._are_positive(others):
                    continue
                times = polynomial.made({others: c})
                for bound in bounds[: max(MOST_CHOICES - self._choices, 0)]:
                    self._choices += 1
                    over = polynomial.multiply(times, polynomial.subtract(bound, unknown.number))
                    chosen = polynomial.add(number, over)
                    least = chosen if type(chosen) is int else self._from_lows(chosen)[0]
                    least = self._least(chosen) if least is None else least
                    found += [] if least is None else [least]
        return max(found, default=None)

    def _are_positive(self, monomial: Monomial) -> bool:
        return not any(low is None or low < 0 for low in (self.all[i].low for i in monomial))

    def _estimated(self, number: Polynomial) -> int | None:
        """The least value, with each quotient that is subtracted at its largest, and others at their least."""
        scale = 1
        for step in range(MOST_ESTIMATES):
            least = self._from_lows(number)[0] if step else None
            found = self._quotient_in(number) if least is None else None
            if found is None:
                return None if least is None else -(-least // scale)
            monomial, index = found
            above, divisor = self.all[index].parts  # type: ignore[misc]
            c = number.terms[monomial]
            others = polynomial.made({polynomial.without(monomial, (index,)): 1})  # type: ignore[dict-item]
            # divisor * quotient is between above - divisor + 1 and above
            bound = above if c < 0 else polynomial.subtract(above, divisor - 1)
            over = polynomial.subtract(bound, polynomial.multiply(divisor, self.all[index].number))
            now = polynomial.add(polynomial.multiply(number, divisor), polynomial.multiply(others, over), c)
            scale *= divisor
            if type(now) is int:
                return -(-now // scale)
            number = now
        return None

    def _quotient_in(self, number: Polynomial) -> tuple[Monomial, int] | None:
        """A term with a quotient, and the quotient; first of those that are subtracted."""
        for negative in (True, False):
            for monomial, c in number.terms.items():
                if (c < 0) is negative and (index := self._last_quotient(monomial)) is not None:
                    return monomial, index
        return None

    def _last_quotient(self, monomial: Monomial) -> int | None:
        """A quotient in a product of numbers that are not negative."""
        if not self._are_positive(monomial):
            return None
        return next((i for i in reversed(monomial) if self.all[i].parts is not None), None)

    def _from_lows(self, number: Polynomial) -> Bounds:
        """In what exceeds the lower bounds of the unknowns, coefficients of one sign bound the value on one side."""
        if any(self.all[i].low is None for monomial in number.terms for i in monomial):
            return None, None
        if all(len(monomial) < 2 for monomial in number.terms):  # nothing to multiply out
            least = sum(c * self.all[m[0]].low if m else c for m, c in number.terms.items())  # type: ignore[operator, misc]
            signs = [c > 0 for m, c in number.terms.items() if m]
            return (least if all(signs) else None), (least if not any(signs) else None)
        shifted: dict[Monomial, int] = {}
        for monomial, c in number.terms.items():
            for kept in itertools.product((True, False), repeat=len(monomial)):
                part, left = c, []
                for index, keep in zip(monomial, kept, strict=True):
                    if keep:
                        left.append(index)
                    else:
                        part *= self.all[index].low  # type: ignore[operator]
                key = tuple(left)
                shifted[key] = shifted.get(key, 0) + part
        least = shifted.pop((), 0)
        signs = [c > 0 for c in shifted.values() if c]
        return (least if all(signs) else None), (least if not any(signs) else None)

    def holds(self, function: Any, difference: Polynomial, answer: bool) -> None:
        """Takes note of an answer that is guarded now: a lower bound of one unknown may follow from it."""
        monomials = [monomial for monomial in difference.terms if monomial]
        if len(monomials) != 1 or len(monomials[0]) != 1 or difference.terms[monomials[0]] != 1:
            return
        found = self.all[monomials[0][0]]
        border = -difference.terms.get((), 0)  # what the unknown was compared with
        low = None
        if not answer:
            low = _LOWER[function](border, found.low)
        if low is not None:
            self._raise(found, low)

    def _raise(self, found: Unknown, low: int) -> None:
        """Takes note of a lower bound, and of what follows: for what a quotient is of, and for quotients."""
        if found.low is not None and low <= found.low:
            return
        found.low = low
        self._facts += 1
        if found.parts is not None:
            number, divisor = found.parts
            monomials = [monomial for monomial in number.terms if monomial]
            if len(monomials) == 1 and len(monomials[0]) == 1 and number.terms[monomials[0]] == 1:
                self._raise(self.all[monomials[0][0]], low * divisor - number.terms.get((), 0))
            return
        for symbol in found.symbols:
            for user in self._users[symbol]:
                least = self._least_of(self.all[user])
                if least is not None:
                    self._raise_only(self.all[user], least)

    def _least_of(self, unknown: Unknown) -> int | None:
        """The least value of a quotient, minimum or maximum, from what it is of."""
        if unknown.parts is not None:
            least = self.bounds(unknown.parts[0])[0]
            return None if least is None else least // unknown.parts[1]
        lows = [self.bounds(bound)[0] for bound in unknown.most or unknown.least]
        known = [low for low in lows if low is not None]
        if unknown.most:
            return min(known) if len(known) == len(lows) else None
        return max(known, default=None)

    def _raise_only(self, found: Unknown, low: int) -> None:
        if found.low is None or low > found.low:
            found.low = low
            self._facts += 1


# What is at least true of a number for which a comparison with a border does not hold.
_LOWER: dict[Any, Any] = {
    operator.eq: lambda border, low: border + 1 if low == border else None,
    operator.lt: lambda border, low: border,
    operator.le: lambda border, low: border + 1,
}
