"""What is no polynomial of ints (`n.bit_length()`, `1 << k`, `math.gcd(n, m)`) as symbols that C calculates."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from stator._entry import RELATION_OPS
from stator.guards.relation import INT_CALLS, WHOLE, Operand, Relation
from stator.shapes.calculations import source_of
from stator.shapes.float_conditions import NoCondition, int_operand
from stator.shapes.roundings import MOST_NESTED, nested

LARGEST = 1 << 62  # ints beyond stay constants


def calculated(symbols: Any, make: Callable[..., Any], function: Any, args: tuple[Any, ...]) -> Any:
    """The symbolic int that a function makes of ints; None if C cannot calculate it as Python does."""
    name, place = INT_CALLS.get(function, ("", 0))
    values = [arg if type(arg) is int else symbols.unknowns.hint(arg.number) for arg in args]
    if name != f"CALL{len(args)}" or any(value is None or abs(value) >= LARGEST for value in values):
        return None
    operands: dict[Operand, int] = {}
    code, texts = [], []
    try:
        if name == "CALL2" and function in _GROWING and values[1] > LARGEST.bit_length():
            return None
        made = function(*values)
        for arg in args:
            step = ("CONST", arg) if type(arg) is int else ("LOAD", _place(int_operand(arg), operands))
            code += [RELATION_OPS[step[0]], step[1]]
            texts.append(str(arg) if type(arg) is int else f"{{{step[1]}}}")
    except (NoCondition, ValueError, ArithmeticError):
        return None
    if type(made) is not int or abs(made) >= LARGEST:
        return None
    relation = Relation(tuple(operands), (*code, RELATION_OPS[name], place), source_of(function, texts))
    operand = Operand(relation.operands[0].path, WHOLE, inner=relation)
    return None if nested(operand) > MOST_NESTED else symbols.rounded(operand, make(made, function, args))


_GROWING = frozenset({operator.lshift, operator.pow})


def _place(operand: Operand, operands: dict[Operand, int]) -> int:
    return operands.setdefault(operand, len(operands))
