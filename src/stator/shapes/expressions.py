"""Walking over the expressions of torch's ShapeEnv: one table of operations, several things to make of them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable
from typing import Any, Protocol, cast

import torch

from stator._entry import RELATION_OPS


class NoForm(Exception):
    """An expression that is not written in the operations of the table."""


class Algebra(Protocol):
    """What becomes of constants, symbols and operations."""

    def constant(self, value: int) -> Any: ...
    def symbol(self, symbol: Any) -> Any: ...
    def apply(self, name: str, args: list[Any]) -> Any: ...


@functools.cache
def _rows() -> list[tuple[type, str]]:
    """sympy class (and what derives from it) -> name of the operation."""
    import sympy  # heavy
    from torch.utils._sympy import functions

    return [
        (sympy.Add, "ADD"),
        (sympy.Mul, "MUL"),
        (functions.FloorDiv, "FLOORDIV"),
        (functions.PythonMod, "MOD"),
        (functions.Mod, "MOD"),
        (sympy.Mod, "MOD"),  # what `%` of expressions is, without torch's symbols around them
        (functions.Max, "MAX"),
        (functions.Min, "MIN"),
        (sympy.Max, "MAX"),
        (sympy.Min, "MIN"),
        (sympy.Pow, "POW"),
        (functions.PowByNatural, "POW"),
        (sympy.Eq, "EQ"),
        (sympy.Ne, "NE"),
        (sympy.StrictLessThan, "LT"),
        (sympy.LessThan, "LE"),
        (sympy.StrictGreaterThan, "GT"),
        (sympy.GreaterThan, "GE"),
        (sympy.And, "AND"),
        (sympy.Or, "OR"),
        (sympy.Not, "NOT"),
    ]


@functools.cache
def _operation(kind: Any) -> str | None:
    return next((name for base, name in _rows() if issubclass(kind, base)), None)


def _name(expr: Any) -> str | None:
    return _operation(cast(Hashable, type(expr)))


def fold(expr: Any, algebra: Algebra) -> Any:
    """What the algebra makes of an expression; NoForm if it knows no way."""
    if expr.is_Integer:
        return algebra.constant(int(expr))
    if expr.is_Symbol:
        return algebra.symbol(expr)
    if expr.is_Boolean and not expr.args:
        return algebra.constant(int(bool(expr)))
    name = _name(expr)
    if name is None:
        raise NoForm(str(expr))
    if name == "POW":
        base, exponent = expr.args
        if not exponent.is_Integer or not 0 <= int(exponent) <= 64:
            raise NoForm(str(expr))
        return algebra.apply(name, [fold(base, algebra), int(exponent)])
    if name == "MUL" and not all(map(is_whole, expr.args)):
        raise NoForm(str(expr))
    args = [fold(arg, algebra) for arg in expr.args]
    if name in ("ADD", "MUL", "MAX", "MIN", "AND", "OR"):
        return functools.reduce(lambda a, b: algebra.apply(name, [a, b]), args)
    return algebra.apply(name, args)


def is_whole(part: Any) -> bool:
    """Whether an expression is an integer; sympy does not say so of a remainder, as what it is of may be zero."""
    return bool(part.is_integer) or (
        _operation(cast(Hashable, type(part))) == "MOD" and all(arg.is_integer for arg in part.args)
    )


class Postfix:
    """Code of a relation; `operand(symbol)` gives the number of an operand."""

    def __init__(self, operand: Callable[[Any], int]) -> None:
        self.operand = operand

    def constant(self, value: int) -> list[int]:
        if not -(1 << 63) <= value < 1 << 63:
            raise NoForm(str(value))
        return [RELATION_OPS["CONST"], value]

    def symbol(self, symbol: Any) -> list[int]:
        return [RELATION_OPS["LOAD"], self.operand(symbol)]

    def apply(self, name: str, args: list[Any]) -> list[int]:
        if name == "POW":
            return [*args[0], RELATION_OPS["POW"], args[1]]
        return [*(step for arg in args for step in arg), RELATION_OPS[name], 0]


_SIGNS = {
    "ADD": "+", "MUL": "*", "FLOORDIV": "//", "MOD": "%", "POW": "**", "EQ": "==", "NE": "!=", "LT": "<", "LE": "<=",
    "GT": ">", "GE": ">=", "AND": "and", "OR": "or",
}  # fmt: skip


class Joined(str):
    """The text of a sum or product, in parentheses, which may go on with the same sign."""

    sign: str

    def __new__(cls, text: str, sign: str) -> Joined:
        made = super().__new__(cls, text)
        made.sign = sign
        return made


class Text:
    """Python source; `name(symbol)` names a symbol."""

    def __init__(self, name: Callable[[Any], str]) -> None:
        self.name = name

    def constant(self, value: int) -> str:
        return str(value) if value >= 0 else f"({value})"

    def symbol(self, symbol: Any) -> str:
        return self.name(symbol)

    def apply(self, name: str, args: list[Any]) -> str:
        if name in ("ADD", "MUL"):  # a long sum has one pair of parentheses: Python's parser takes 200 in one another
            left = args[0][1:-1] if type(args[0]) is Joined and args[0].sign == _SIGNS[name] else args[0]
            return Joined(f"({left} {_SIGNS[name]} {args[1]})", _SIGNS[name])
        if name in _SIGNS:
            return f"({args[0]} {_SIGNS[name]} {args[1]})"
        return f"(not {args[0]})" if name == "NOT" else f"{name.lower()}({args[0]}, {args[1]})"


_FUNCTIONS: dict[str, Any] = {
    "ADD": operator.add,
    "MUL": operator.mul,
    "FLOORDIV": operator.floordiv,
    "MOD": operator.mod,
    "POW": operator.pow,
    "MAX": torch.sym_max,
    "MIN": torch.sym_min,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "AND": operator.and_,
    "OR": operator.or_,
    "NOT": torch.sym_not,
}


class Nodes:
    """Nodes of a graph; `symbol` gives a placeholder, `add` a call."""

    def __init__(self, symbol: Callable[[Any], Any], add: Callable[[Any, tuple[Any, ...]], Any]) -> None:
        self.symbol = symbol
        self.add = add

    def constant(self, value: int) -> int:
        return value

    def apply(self, name: str, args: list[Any]) -> Any:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise NoForm(name)
        return self.add(function, tuple(args))
