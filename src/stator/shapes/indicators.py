"""Numbers that tell whether an unknown is one: `1 // n` is 1 if it is, else 0.

With them a stride is one number for all sizes also where it is another one if a size is one: `several + (1 // n) * (one
- several)`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stator.shapes import polynomial
from stator.shapes.polynomial import Number, Polynomial

if TYPE_CHECKING:
    from stator.shapes.unknowns import Unknowns


class Indicators:
    """The indicators of one capture; `subjects`: by indicator, the unknown it is about."""

    def __init__(self, unknowns: Unknowns) -> None:
        self.unknowns = unknowns
        self.subjects: dict[int, int] = {}
        self._made: dict[int, Polynomial] = {}  # by subject

    def of(self, index: int) -> Polynomial | None:
        """The indicator of an unknown; None if that may be zero, or has no value in this call."""
        found = self._made.get(index)
        subject = self.unknowns.all[index]
        if found is None and (subject.low or 0) >= 1 and subject.hint is not None:
            made = self.unknowns.indicator(subject)
            self.subjects[made.index] = index
            found = self._made[index] = made.number
        return found

    def among(self, numbers: Iterable[Number]) -> set[int]:
        """The indicators that numbers are made of, but those whose unknown is not one by now."""
        if not self.subjects:
            return set()
        made_of: set[int] = set()
        for number in numbers:
            if type(number) is Polynomial:
                made_of |= number.unknowns
        return {index for index in made_of & self.subjects.keys() if not self._is_gone(index)}

    def _is_gone(self, indicator: int) -> bool:
        subject = self.unknowns.all[self.subjects[indicator]]
        return self.unknowns.known(operator.eq, subject.number, 1) is False

    def settled(self, number: Number) -> Number:
        """The number without indicators of unknowns that are not one by now."""
        if type(number) is not Polynomial or self.subjects.keys().isdisjoint(number.unknowns):
            return number
        gone = {index for index in number.unknowns & self.subjects.keys() if self._is_gone(index)}
        for index in gone:
            number = self.if_several(number, index)
        return number

    def if_several(self, number: Number, indicator: int) -> Number:
        """The number if what an indicator is about is not one."""
        if type(number) is int or indicator not in number.unknowns:
            return number
        return polynomial.made({monomial: c for monomial, c in number.terms.items() if indicator not in monomial})

    def if_one(self, number: Number, indicator: int) -> Number:
        """The number if what an indicator is about is one."""
        subject = self.subjects[indicator]
        if type(number) is int or self._are_apart(number, subject, indicator):
            return number
        total: Number = 0
        for monomial, c in number.terms.items():
            term: Number = c
            for index in monomial:
                term = polynomial.multiply(term, self._if_one(index, subject, indicator))
            total = polynomial.add(total, term)
        return total

    def _if_one(self, index: int, subject: int, indicator: int) -> Number:
        if index in (subject, indicator):
            return 1
        unknown = self.unknowns.all[index]
        if unknown.parts is None:
            return unknown.number
        number, divisor = unknown.parts
        return self.unknowns.floor(self.if_one(number, indicator), divisor)

    def _are_apart(self, number: Polynomial, subject: int, indicator: int) -> bool:
        """Whether nothing in a number depends on an unknown; a quotient depends on what it is of."""
        if subject in number.unknowns or indicator in number.unknowns:
            return False
        symbols = self.unknowns.all[subject].symbols
        return symbols.isdisjoint(self.unknowns.symbols_of(number))

    def either(self, several: Number, one: Number, indicator: int) -> Number:
        """The number that is `one` if what an indicator is about is one, else `several`."""
        over = polynomial.subtract(one, self.if_one(several, indicator))
        return polynomial.add(several, polynomial.multiply(self.unknowns.all[indicator].number, over))

    def same(self, several: Number, one: Number, indicator: int) -> bool:
        """Whether a number is this one if what an indicator is about is one."""
        return self.unknowns.known(operator.eq, self.if_one(several, indicator), one) is True
