"""Floats that are fractions of symbolic ints: what `math.ceil(n / 3)` and `int(n * 0.5)` are as ints.

Where all ints are small enough, a quotient of floats lies on the same side of every whole number as the fraction that
it is rounded from, and sums and products of fractions of powers of two are exact.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from stator.shapes.scalar import TracedInt

LARGEST = 1 << 52  # numerators up to here
LARGEST_FACTOR = 1 << 20  # of floats that the program has written down


class Fraction(NamedTuple):
    """A numerator that may be symbolic, a positive denominator, and all numerators that must not be too large."""

    above: Any
    below: int
    checked: tuple[Any, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.below & (self.below - 1) == 0


def _divided(a: Fraction, b: Fraction) -> Fraction | None:
    if type(b.above) is not int or b.above <= 0:
        return None
    above = a.above * b.below
    return Fraction(above, a.below * b.above, (*a.checked, above))


def _multiplied(a: Fraction, b: Fraction) -> Fraction | None:
    if type(a.above) is not int and type(b.above) is not int:
        return None
    above = a.above * b.above
    return Fraction(above, a.below * b.below, (*a.checked, *b.checked, above))


def _added(a: Fraction, b: Fraction) -> Fraction:
    above = a.above * b.below + b.above * a.below
    return Fraction(above, a.below * b.below, (*a.checked, *b.checked, above))


_RULES: dict[Any, Any] = {
    operator.truediv: _divided,
    operator.mul: _multiplied,
    operator.add: _added,
    operator.sub: lambda a, b: _added(a, Fraction(-b.above, b.below, b.checked)),
}


def _call(value: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function and the arguments that a symbolic float is calculated by."""
    return getattr(value, "function", None), getattr(value, "args", ())


def fraction(value: Any) -> Fraction | None:
    """The fraction that a number is rounded from; None if it is none, or too far from one."""
    kind = type(value)
    if kind is TracedInt or kind is int:
        return Fraction(value, 1, (value,))
    if kind is float:
        above, below = value.as_integer_ratio() if math.isfinite(value) else (LARGEST, 1)
        return Fraction(above, below) if max(abs(above), below) < LARGEST_FACTOR else None
    function, args = _call(value)
    if function is float and len(args) == 1:
        return fraction(args[0])
    parts = [fraction(arg) for arg in args] if function in _RULES else []
    if len(parts) != 2 or any(part is None or not part.is_exact for part in parts):
        return None
    made: Fraction | None = _RULES[function](*parts)
    return made


def whole(function: Any, number: Any) -> Any:
    """What `math.floor`, `math.ceil` or `int` makes of a float, as a symbolic int; None if that cannot be said."""
    found = fraction(number)
    if found is None or function not in (math.floor, math.ceil, int) or type(found.above) is not TracedInt:
        return None
    if not all(-LARGEST < above < LARGEST for above in found.checked):
        return None
    if function is int:
        least, largest = found.above.symbols.unknowns.bounds(found.above.number)
        if not (least is not None and least >= 0) and not (largest is not None and largest <= 0):
            return None
        function = math.floor if least is not None and least >= 0 else math.ceil
    return found.above // found.below if function is math.floor else -(-found.above // found.below)
