"""Sizes of two tensors that a view takes for one: `x.view(len(y), -1, 8)` where `x` has as many rows as `y`."""

from __future__ import annotations

import operator
from typing import Any

from stator.guards.relation import SIZE
from stator.shapes import polynomial
from stator.shapes.polynomial import Polynomial
from stator.shapes.scalar import TracedInt


def meet(total: Any, divisor: Any) -> None:
    """Guards that two sizes are equal which are in this call, where nothing is left of a quotient only then.

    Else what is left would have to be zero, which tells nothing about the quotient.
    """
    if type(total) is not TracedInt or type(divisor) is not TracedInt:
        return
    symbols = total.symbols
    whole, part = map(symbols.unknowns.settled, (total.number, divisor.number))
    if type(whole) is not Polynomial or type(part) is not Polynomial or _divides(symbols, whole, part):
        return
    for theirs in part.unknowns - whole.unknowns:
        for ours in whole.unknowns - part.unknowns:
            one, other = polynomial.unknown(ours), polynomial.unknown(theirs)
            if _are_alike(symbols, one, other) and _divides(symbols, _with(whole, ours, other), part):
                symbols.compare(operator.eq, one, other)
                return


def _divides(symbols: Any, whole: Polynomial, part: Polynomial) -> bool:
    return symbols.unknowns.exact(whole, part) is not None


def _are_alike(symbols: Any, *sizes: Any) -> bool:
    """Whether these are sizes from outside, as large in this call."""
    sources = [symbols.sources.get(symbols.unknowns.only(size)) for size in sizes]
    if any(source is None or source.kind != SIZE for source in sources):
        return False
    known = {symbols.unknowns.hint(size) for size in sizes}
    return len(known) == 1 and None not in known


def _with(number: Polynomial, index: int, other: Polynomial) -> Any:
    """The number with another one for an unknown."""
    found: Any = 0
    for monomial, c in number.terms.items():
        term: Any = c
        for i in monomial:
            term = polynomial.multiply(term, other if i == index else polynomial.unknown(i))
        found = polynomial.add(found, term)
    return found
