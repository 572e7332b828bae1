"""Functions of numbers that raise, or give no float, for some numbers only.

Every call calculates what a program made with one of them, also where nothing needs the result: the next call may be
the one that raises.
"""

from __future__ import annotations

import math
import operator
from typing import Any

_DIVISIONS = frozenset({operator.truediv, operator.floordiv, operator.mod})
_TOTAL = frozenset(
    {operator.add, operator.sub, operator.mul, operator.neg, abs, float, max, min, math.fabs, math.copysign}
    | {math.atan, math.atan2, math.tanh, math.erf, math.erfc, math.degrees, math.radians, math.cbrt}
)


def may_raise(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether there are other numbers for which a function raises that gave a float for these."""
    if function in _DIVISIONS:
        return type(args[1]) not in (int, float, bool)
    return function not in _TOTAL


def real_power(base: Any, exponent: Any) -> float:
    """A power that was a float; of a negative number it may be complex."""
    made = base**exponent
    if type(made) is not float:
        raise TypeError
    return made
