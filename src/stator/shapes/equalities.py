"""What follows from numbers that were found to be equal: which unknowns are multiples, or are what others are."""

from __future__ import annotations

from stator.shapes import polynomial
from stator.shapes.polynomial import Monomial, Number, Polynomial
from stator.shapes.unknowns import Unknowns


class Equalities(Unknowns):
    """Numbers of one capture that learn from equations."""

    def equal(self, difference: Polynomial) -> None:
        """Takes note that a number is zero: an unknown in it that is no symbol is what the others are."""
        for monomial, c in difference.terms.items():
            if abs(c) != 1 or len(monomial) != 1 or self.all[monomial[0]].parts is None:
                continue
            if sum(monomial[0] in other for other in difference.terms) == 1:
                others = polynomial.subtract(difference, polynomial.made({monomial: c}))
                self._same[monomial[0]] = polynomial.multiply(others, -c)
                self._facts += 1
                return
        for monomial in difference.terms:  # a multiple is the divisor times the quotient
            parts = self.all[monomial[0]].parts if len(monomial) == 1 else None
            if parts is not None and self._is_multiple(difference, monomial):
                number, divisor = parts
                one = next(other for other in number.terms if other)
                rest = polynomial.subtract(number, polynomial.made({one: 1}))
                multiple = polynomial.multiply(divisor, polynomial.made({monomial: 1}))
                self._same[one[0]] = polynomial.subtract(multiple, rest)
                self._facts += 1
                return
        for index, multiple, whole in self._matched(difference):
            self._raise(self.all[index], 1)
            self.equal(polynomial.subtract(whole, multiple))

    def _matched(self, difference: Polynomial) -> list[tuple[int, Number, Number]]:
        """Where two products are equal, and no factor of one is larger than its match in the other, all are equal."""
        (left, a), (right, b) = min(difference.terms.items()), max(difference.terms.items())
        if len(difference.terms) != 2 or len(left) != len(right) or len(left) < 2 or a * b > 0:
            return []
        if abs(a) < abs(b):
            (left, a), (right, b) = (right, b), (left, a)
        found: list[tuple[int, Number, Number]] = []
        times, others = 1, list(right)
        for index in left:
            match = next((pair for other in others if (pair := self._multiple(index, other)) is not None), None)
            if match is None:
                return []
            factor, other = match
            others.remove(other)
            times *= factor
            found.append((index, polynomial.multiply(factor, self.all[index].number), self.all[other].number))
        return found if times * abs(b) == abs(a) else []

    def _multiple(self, index: int, other: int) -> tuple[int, int] | None:
        """How often one unknown, a quotient of what the other one is of, is in the other, which is positive."""
        one, made = self.all[index], self.all[other]
        if one.parts is None or one.low is None or one.low < 0 or made.low is None or made.low < 1:
            return None
        (number, divisor), (whole, part) = one.parts, made.parts or (made.number, 1)
        return (divisor // part, other) if number == whole and divisor % part == 0 else None

    def _is_multiple(self, difference: Polynomial, monomial: Monomial) -> bool:
        """Whether a number is the remainder of one unknown, but for a constant in it."""
        number, _ = self.all[monomial[0]].parts  # type: ignore[misc]
        ones = [other for other in number.terms if other]
        if len(ones) != 1 or len(ones[0]) != 1 or number.terms[ones[0]] != 1 or ones[0][0] in self._same:
            return False
        shorter = self._without(difference, monomial)
        return shorter is not None and type(shorter[1]) is int and shorter[1] == 0
