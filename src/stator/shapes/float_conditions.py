"""Comparisons of calculated floats as relations that C checks: the expression again, in doubles."""

from __future__ import annotations

import math
import operator
from typing import Any, cast

from stator._entry import RELATION_OPS
from stator.guards.path import Path
from stator.guards.relation import FLOAT, NUMBER, WHOLE, Operand, Relation
from stator.shapes.alternatives import Alternatives
from stator.shapes.expressions import NoForm, Postfix, Text, fold
from stator.shapes.tables import Table

LONGEST = 256  # steps of a relation
DEEPEST = 48
_BINARY = {
    operator.add: ("ADD", "+"),
    operator.sub: ("SUB", "-"),
    operator.mul: ("MUL", "*"),
    operator.truediv: ("DIV", "/"),
}
EXTREMES = {max: "MAX", min: "MIN"}
_FUNCTIONS: dict[Any, tuple[str, int]] = {
    getattr(math, name[2:]): (f"CALL{name[0]}", number) for name, number in RELATION_OPS.items() if name[1:2] == " "
}
_FUNCTIONS[abs] = _FUNCTIONS[math.fabs]
_FUNCTIONS[operator.pow] = _FUNCTIONS[math.pow]
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class NoCondition(Exception):
    """An expression that C cannot calculate as Python does."""


class Certain(NoCondition):
    """An expression without symbols: what chose its numbers is guarded already."""


class Condition:
    """The code of one comparison in the making."""

    def __init__(self) -> None:
        self.operands: dict[Operand, int] = {}
        self.code: list[int] = []
        self.waiting: list[tuple[int, float]] = []  # where a constant is loaded, which belongs to no path

    def add(self, value: Any, depth: int = 0) -> str:
        """Appends the steps for a number; gives its text."""
        if len(self.code) > 2 * LONGEST or depth > DEEPEST:
            raise NoCondition
        if type(value) in (int, float, bool):
            return self._constant(value)
        if hasattr(value, "symbols"):  # a symbolic int
            return self._load(int_operand(value))
        if value.function is None:
            if type(value.args[0]) is not Path:
                raise NoCondition
            return self._load(Operand(value.args[0], FLOAT))
        if type(value.function) is Alternatives:
            return self.add(value.function.side(), depth + 1)
        if value.function in EXTREMES:
            return self._extreme(value.function, value.args, depth)
        if type(value.function) is Table:
            return self._row(value.function, value.args[0])
        parts = [self.add(arg, depth + i + 1) for i, arg in enumerate(value.args)]
        return self._apply(value.function, parts)

    def _extreme(self, function: Any, args: tuple[Any, ...], depth: int) -> str:
        """In the order of Python: of equal ones the first, and next to nan too."""
        parts = []
        for i, arg in enumerate(args):
            parts.append(self.add(arg, depth + 1 + bool(i)))
            if i:
                self._step(EXTREMES[function])
        return f"{function.__name__}({', '.join(parts)})"

    def _row(self, table: Table, key: Any) -> str:
        if not table.is_short():
            raise NoCondition
        operand = int_operand(key)
        for name, value in table.steps():
            if name == "KEY":
                self._load(operand)
            elif name == "NUMBER":
                self._constant(value)
            else:
                self._step(name)
        return f"table[{{{self.operands[operand]}}}]"

    def _apply(self, function: Any, parts: list[str]) -> str:
        if function is float:
            return parts[0]
        if function is operator.neg:
            self._step("NEG")
            return f"-{parts[0]}"
        if function in _BINARY:
            name, sign = _BINARY[function]
            self._step(name)
            return f"({parts[0]} {sign} {parts[1]})"
        name, number = _FUNCTIONS.get(function, ("", 0))
        if name != f"CALL{len(parts)}":
            raise NoCondition
        self._step(name, number)
        return f"{function.__name__}({', '.join(parts)})"

    def _step(self, name: str, arg: int = 0) -> None:
        self.code += RELATION_OPS[name], arg

    def _load(self, operand: Operand) -> str:
        number = self.operands.setdefault(operand, len(self.operands))
        self._step("LOAD", number)
        return f"{{{number}}}"

    def _constant(self, value: Any) -> str:
        if abs(value) > 1 << 53 and type(value) is not float:
            raise NoCondition
        self.waiting.append((len(self.code) + 1, float(value)))
        self._step("LOAD")
        return repr(value)

    def relation(self, name: str, left: Any, right: Any, holds: bool) -> Relation:
        """That the comparison of two numbers comes out like this."""
        text = f"{self.add(left)} {COMPARISONS[name]} {self.add(right)}"
        self._step(name.upper())
        if not holds:
            self._step("NOT")
            text = f"not {text}"
        return self._finished(text)

    def calculation(self, number: Any) -> Relation:
        """The number itself."""
        return self._finished(self.add(number))

    def _finished(self, text: str) -> Relation:
        if not self.operands:
            raise Certain
        path = next(iter(self.operands)).path
        for place, value in self.waiting:
            operand = Operand(path, NUMBER, bound=value)
            self.code[place] = self.operands.setdefault(operand, len(self.operands))
        return Relation(tuple(self.operands), tuple(self.code), text, real=True)


def int_operand(value: Any) -> Operand:
    """Where a symbolic int lies, or how it is calculated."""
    sources, expr = value.symbols.sources, value.expr
    if not expr.free_symbols or not expr.free_symbols <= sources.keys():
        raise NoCondition
    if expr.is_Symbol:
        return cast(Operand, sources[expr])
    places: dict[Any, int] = {}
    try:
        code = fold(expr, Postfix(lambda symbol: places.setdefault(symbol, len(places))))
        text = fold(expr, Text(lambda symbol: f"{{{places[symbol]}}}"))
    except NoForm:
        raise NoCondition from None
    operands = tuple(sources[symbol] for symbol in places)
    return Operand(operands[0].path, WHOLE, inner=Relation(operands, tuple(code), text))
