"""Unknowns and what their lower bounds say about numbers that are made of them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any

from stator.shapes import polynomial
from stator.shapes.polynomial import Monomial, Number, Polynomial

MOST_ESTIMATES = 8  # quotients that are estimated to bound one number
FEW_CHOICES = 8  # numbers of a minimum or maximum, each of which is tried
MOST_CHOICES = 64  # minima and maxima put at one of their numbers to bound one number

Bounds = tuple[int | None, int | None]


class Unknown:
    """One unknown: its expression, its value in this call (None if nobody knows) or a guess, its least value, and the
    symbols it depends on; `parts`: numerator and divisor of a quotient, whose expression is made when it is needed;
    `least`, `most`: numbers that a maximum or minimum is one of, `given`: those it was made of, `among`: the unknowns
    in all of these; `subject`: the unknown that it tells to be one; `length`: of its expression, in unknowns."""

    __slots__ = (
        "among", "expr", "given", "guess", "hint", "index", "least",
        "length", "low", "most", "number", "parts", "subject", "symbols",
    )  # fmt: skip

    def __init__(self, index: int, expr: Any, hint: int | None, guess: int | None, low: int | None) -> None:
        self.index = index
        self.expr = expr
        self.hint = hint
        self.guess = guess
        self.low = low
        self.number = polynomial.unknown(index)
        self.parts: tuple[Polynomial, int] | None = None
        self.least: tuple[Number, ...] = ()
        self.most: tuple[Number, ...] = ()
        self.given: tuple[Number, ...] = ()
        self.among: frozenset[int] = frozenset()
        self.symbols: frozenset[Any] = frozenset()
        self.subject: int | None = None
        self.length = 1


class Bounding:
    """The unknowns of one capture, as far as their bounds are concerned."""

    def __init__(self) -> None:
        self.all: list[Unknown] = []
        self._floored: set[int] = set()  # unknowns that are quotients
        self._chosen: set[int] = set()  # unknowns that are minima or maxima
        self._unbounded: set[int] = set()  # unknowns without a lower bound
        self._signed: set[int] = set()  # unknowns that may be negative
        self._lows: list[int] = []  # lower bounds of all; 0 where there is none
        self._history: list[tuple[Unknown, int | None]] = []  # lower bounds before they were raised, the last one last
        self._users: dict[Any, list[int]] = {}  # by symbol: the unknowns whose expressions it is in
        self._facts = 0  # how often a lower bound became known
        self._shared: dict[int, dict[int, list[Number]]] = {}  # what many numbers are made of that one is chosen from
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
        if number.unknowns.isdisjoint(self._floored) and number.unknowns.isdisjoint(self._chosen):
            return low, high
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
        if number.unknowns.isdisjoint(self._chosen):
            return None
        for monomial, c in number.terms.items():
            for index in monomial:
                unknown = self.all[index]
                others: Any = polynomial.without(monomial, (index,))
                bounds = unknown.most if c < 0 else unknown.least
                if not bounds or not self._are_positive(others):
                    continue
                times = polynomial.made({others: c})
                for bound in self._telling(index, bounds, number)[: max(MOST_CHOICES - self._choices, 0)]:
                    self._choices += 1
                    over = polynomial.multiply(times, polynomial.subtract(bound, unknown.number))
                    chosen = polynomial.add(number, over)
                    least = chosen if type(chosen) is int else self._from_lows(chosen)[0]
                    least = self._least(chosen) if least is None else least
                    found += [] if least is None else [least]
        return max(found, default=None)

    def _telling(self, chosen: int, bounds: tuple[Number, ...], number: Polynomial) -> tuple[Number, ...]:
        """Of the many numbers that an unknown is one of, those that have something in common with a number."""
        if len(bounds) <= FEW_CHOICES:
            return bounds
        constant = bounds[:1] if type(bounds[0]) is int else ()
        common = self.all[chosen].among & number.unknowns
        if not common:
            return constant
        if chosen not in self._shared:
            self._shared[chosen] = _by_unknown(bounds[len(constant) :])
        shared = (self._shared[chosen].get(index, ()) for index in sorted(common))
        return (*constant, *dict.fromkeys(itertools.chain.from_iterable(shared)))

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
        if number.unknowns.isdisjoint(self._floored):
            return None
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
        if not number.unknowns.isdisjoint(self._unbounded):
            return None, None
        if number.linear is not None:  # nothing to multiply out
            unknowns, factors, constant = number.linear
            least = constant + sum(map(operator.mul, factors, map(self._lows.__getitem__, unknowns)))
            return (least if min(factors) > 0 else None), (least if max(factors) < 0 else None)
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
        self._set_low(found, low)
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

    def mark(self) -> int:
        """A moment that lower bounds may be put back to."""
        return len(self._history)

    def rise(self, number: Polynomial) -> set[int]:
        """Takes all that a number is made of to be more than one, as it is in this call; of what that is news."""
        parts = {index for monomial in number.terms for index in monomial}
        told = (self.all[index].subject for index in parts)  # what indicators are about
        found = {i for i in (*parts, *told) if i is not None and self._may_rise(self.all[i])}
        for index in found:  # nothing follows for others: what a quotient is of may be anything
            self._raise_only(self.all[index], 2)
        return found

    def _may_rise(self, one: Unknown) -> bool:
        return one.low is not None and one.low < 2 and one.hint is not None and one.hint > 1

    def if_one(self, number: Number, ones: Iterable[int]) -> int | None:
        """The value in this call, but that some unknowns were one; None if it cannot be told."""
        return self._if_given(number, dict(map(self._as_one, ones)))

    def _as_one(self, index: int) -> tuple[int, int]:
        """An unknown and its value, so that this one is one: what a quotient is of is so, too."""
        number, divisor = self.all[index].parts or (self.all[index].number, 1)
        rest = polynomial.subtract(number, number.terms.get((), 0))
        value = self._if_given(number, {})
        if type(rest) is int or len(rest.terms) != 1 or value is None:
            return index, 1
        ((monomial, c),) = rest.terms.items()
        if c != 1 or len(monomial) != 1:
            return index, 1
        return monomial[0], divisor + value % divisor - number.terms.get((), 0)

    def _if_given(self, number: Number, given: dict[int, int]) -> int | None:
        """The value in this call, but for unknowns that are given."""
        if type(number) is int:
            return number
        total = 0
        for monomial, c in number.terms.items():
            for index in monomial:
                value = given[index] if index in given else self._given_of(self.all[index], given)
                if value is None:
                    return None
                c *= value
            total += c
        return total

    def _given_of(self, unknown: Unknown, given: dict[int, int]) -> int | None:
        if unknown.parts is not None:
            above = self._if_given(unknown.parts[0], given)
            return None if above is None else above // unknown.parts[1]
        if unknown.subject is not None:
            subject = self._if_given(self.all[unknown.subject].number, given)
            return None if subject is None else int(subject == 1)
        if unknown.expr.is_Symbol:
            return unknown.hint
        known = {
            one.expr: given.get(one.index, one.hint)
            for one in self.all
            if one.parts is None and one.expr in unknown.symbols
        }
        value = None if None in known.values() else unknown.expr.xreplace(known)
        return int(value) if value is not None and value.is_Integer else None

    def put_back(self, mark: int) -> None:
        """Lower bounds as they were at a moment."""
        while len(self._history) > mark:
            unknown, low = self._history.pop()
            unknown.low = low
            self._lows[unknown.index] = low or 0
            (self._unbounded.add if low is None else self._unbounded.discard)(unknown.index)
            (self._signed.add if low is None or low < 0 else self._signed.discard)(unknown.index)
        self._facts += 1

    def _least_of(self, unknown: Unknown) -> int | None:
        """The least value of a quotient, minimum or maximum, from what it is of."""
        if unknown.parts is not None:
            least = self.bounds(unknown.parts[0])[0]
            return None if least is None else least // unknown.parts[1]
        lows = [self.bounds(bound)[0] for bound in unknown.given]
        known = [low for low in lows if low is not None]
        if unknown.most:
            return min(known) if len(known) == len(lows) else None
        return max(known, default=None)

    def _raise_only(self, found: Unknown, low: int) -> None:
        if found.low is None or low > found.low:
            self._set_low(found, low)

    def _set_low(self, found: Unknown, low: int) -> None:
        self._history.append((found, found.low))
        found.low = self._lows[found.index] = low
        self._unbounded.discard(found.index)
        if low >= 0:
            self._signed.discard(found.index)
        self._facts += 1


def _by_unknown(numbers: Iterable[Polynomial]) -> dict[int, list[Number]]:
    """Numbers by the unknowns that they are made of."""
    found: dict[int, list[Number]] = {}
    for number in numbers:
        for index in number.unknowns:
            found.setdefault(index, []).append(number)
    return found


# What is at least true of a number for which a comparison with a border does not hold.
_LOWER: dict[Any, Any] = {
    operator.eq: lambda border, low: border + 1 if low == border else None,
    operator.lt: lambda border, low: border,
    operator.le: lambda border, low: border + 1,
}
