"""Ints that are floats rounded: `int(n * 0.6)`, `math.ceil(ratio * n)`, `round(s)` as symbols that C can calculate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stator.guards.relation import ROUNDINGS, WHOLE, Operand
from stator.shapes.float_conditions import Condition, NoCondition

MOST_NESTED = 4  # roundings of what was made of rounded numbers
LARGEST = 1 << 53  # ints up to here are floats exactly


def rounded(function: Any, number: Any) -> Any:
    """The symbolic int that a function makes of a symbolic float; None if C cannot calculate it as Python does."""
    rounding = ROUNDINGS.get(function)
    if rounding is None or not abs(number.value) < LARGEST:
        return None
    try:
        inner = Condition().calculation(number)
    except NoCondition:
        return None
    operand = Operand(inner.operands[0].path, WHOLE, rounding, inner=inner)
    if nested(operand) > MOST_NESTED:
        return None
    made = type(number)(number.floats, function(number.value), function, (number,))
    return number.floats.rounded(operand, made)


def nested(operand: Operand) -> int:
    """How many calculations there are in one another."""
    return 0 if operand.inner is None else 1 + max(map(nested, operand.inner.operands))


def _towards_zero(made: int, value: float) -> Iterator[tuple[str, int]]:
    if made <= 0:
        yield "gt", made - 1
    if made >= 0:
        yield "lt", made + 1
    if made:
        yield ("ge" if made > 0 else "le"), made


# The comparisons that hold for all floats of which a function makes the same int.
WITHIN: dict[Any, Callable[[int, float], Iterable[tuple[str, int]]]] = {
    math.floor: lambda made, value: (("ge", made), ("lt", made + 1)),
    math.ceil: lambda made, value: (("le", made), ("gt", made - 1)),
    int: _towards_zero,
}
