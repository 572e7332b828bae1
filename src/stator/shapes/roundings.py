"""Ints that are floats rounded: `int(n * 0.6)`, `math.ceil(ratio * n)`, `round(s)` as symbols that C can calculate."""

from __future__ import annotations

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
    if _depth(operand) > MOST_NESTED:
        return None
    made = type(number)(number.floats, function(number.value), function, (number,))
    return number.floats.rounded(operand, made)


def _depth(operand: Operand) -> int:
    return 0 if operand.inner is None else 1 + max(map(_depth, operand.inner.operands))
