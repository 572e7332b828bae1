"""Quotients of polynomials by a number, rounded down: one form for all that are equal by simple laws.

Remainders are written with quotients, `n % d` as `n - d * (n // d)`, so that what was padded to a multiple is one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stator.shapes import polynomial
from stator.shapes.polynomial import Number, Polynomial


class Quotient(NamedTuple):
    """`whole + sign * (rest // divisor)`; without a divisor it is `whole`."""

    whole: Number
    sign: int = 1
    rest: Number = 0
    divisor: int = 0


def quotient(number: Polynomial, divisor: int) -> Quotient:
    """The quotient with what divides taken out, in lowest terms, and with a first coefficient that is positive."""
    whole: Number = 0
    rest: dict[polynomial.Monomial, int] = {}
    for monomial, c in number.terms.items():
        part = c // divisor if not monomial else _nearest(c, divisor)
        whole = polynomial.add(whole, polynomial.made({monomial: part} if part else {}))
        if c != part * divisor:
            rest[monomial] = c - part * divisor
    constant = rest.pop((), 0)
    if not rest:
        return Quotient(whole)
    common = math.gcd(divisor, *rest.values())
    if common > 1:  # what is left of the constant cannot reach the next multiple
        rest = {monomial: c // common for monomial, c in rest.items()}
        constant, divisor = constant // common, divisor // common
    sign = 1
    if rest[min(rest)] < 0:  # -(x // d) is what -x rounded up is
        sign, constant = -1, divisor - 1 - constant
        rest = {monomial: -c for monomial, c in rest.items()}
    if constant:
        rest[()] = constant
    return Quotient(whole, sign, polynomial.made(rest), divisor)


def _nearest(c: int, divisor: int) -> int:
    """How often the divisor is in a coefficient, such that what is left is small; if there is a choice, of its sign."""
    part = int(math.copysign(abs(c) // divisor, c))
    left = c - part * divisor
    if 2 * abs(left) > divisor:
        part += 1 if left > 0 else -1
    return part
