"""Calculations of Python with numbers that only data tells, as source text and operands.

What operations of tensors do not calculate to the last bit (`n ** 0.5`, `math.log(x)`, `a | b`, a comparison
as a number) Python calculates in the middle of the graph, see `tensors/evaluate.py`.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from stator.code.operators import SIGNS

LARGEST = (1 << 63) - 1


class Kind(NamedTuple):
    """What a calculation gives: the type, and bounds of an int."""

    type: type
    low: int | None = None
    high: int | None = None


FLOAT = Kind(float)
INT = Kind(int)
COUNT = Kind(int, 0)
CONDITION = Kind(bool, 0, 1)

_SIGNS: dict[Any, str] = {
    **{function: sign for function, (_, sign) in SIGNS.items()},
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_METHODS = frozenset({float.is_integer, int.bit_length, int.bit_count})

# Functions of ints that give an int, which is never negative if it says so.
INT_MATH: dict[Any, Kind] = {
    math.isqrt: COUNT, math.gcd: COUNT, math.lcm: COUNT, math.comb: COUNT, math.perm: COUNT, math.factorial: COUNT,
    int.bit_length: Kind(int, 0, 64), int.bit_count: Kind(int, 0, 64), pow: INT,
}  # fmt: skip


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """One number or the other."""
    return yes if condition else no


def sum_of(*numbers: Any) -> float:
    """`math.fsum` of numbers that are given one by one."""
    return math.fsum(numbers)


def distance_of(*numbers: Any) -> float:
    """`math.dist` of two places, whose coordinates follow each other."""
    half = len(numbers) // 2
    return math.dist(numbers[:half], numbers[half:])


def source_of(function: Any, args: list[str]) -> str:
    """Python source for a function of these operands."""
    if function is choose:
        return f"({args[1]} if {args[0]} else {args[2]})"
    sign = _SIGNS.get(function)
    if sign is not None:
        return f"({args[0]} {sign} {args[1]})"
    name = function.__name__
    if function in _METHODS:
        return f"({args[0]}).{name}()"
    home = "math." if getattr(math, name, None) is function else ""
    return f"{home}{name}({', '.join(args)})"


def literal(value: Any) -> str | None:
    """A constant as source; None if it is not to be taken for a number of the graph."""
    if type(value) is float:
        return f"({value!r})" if value - value == 0 else f"float('{value}')"
    return f"({value!r})" if type(value) in (int, bool) and abs(value) <= LARGEST else None
