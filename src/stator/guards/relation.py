"""Relations between sizes, strides, ints and floats: small programs that C runs, and their Python twin.

They calculate with 64-bit integers; those that floats take part in with doubles.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stator._entry import RELATION_OPS
from stator.guards.path import Path

# What an operand reads of the value at its path; a constant; what an inner relation gives, rounded if that is a double.
SIZE, STRIDE, INT, SIDE, FLOAT, NUMBER, WHOLE = range(7)
LESSONS = {SIZE: "size", STRIDE: "stride", INT: "int", FLOAT: "float"}  # kinds of numbers that a call may bring along
ROUNDINGS: dict[Any, int] = {int: 0, math.floor: 1, math.ceil: 2, round: 3}

_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class Operand:
    """One number that a call brings along."""

    path: Path
    kind: int
    index: int = 0
    bound: float = 0.0  # SIDE: 1, 0 or -1 as a float is above, at or below this; NUMBER: this
    inner: Relation | None = None  # WHOLE: what calculates the number; the index is the rounding

    def paths(self) -> Iterator[Path]:
        """All paths that it reads."""
        if self.inner is None:
            yield self.path
        else:
            for operand in self.inner.operands:
                yield from operand.paths()

    def lessons(self) -> Iterator[tuple[Path, str, int]]:
        """The sizes, strides, ints and floats that it is made of: where they are, their kind, their dimension."""
        if self.inner is not None:
            for operand in self.inner.operands:
                yield from operand.lessons()
        elif self.kind in LESSONS:
            yield self.path, LESSONS[self.kind], self.index

    def load(self, args: Sequence[Any], memo: dict[Path, Any]) -> Any:
        """What it reads from; several values for what is calculated."""
        if self.inner is None:
            return self.path.load(args, memo)
        return [operand.load(args, memo) for operand in self.inner.operands]

    def describe(self, arg_names: Sequence[str] = ()) -> str:
        if self.kind == NUMBER:
            return repr(self.bound)
        if self.inner is not None:
            made = self.inner.describe(arg_names)
            return f"{list(ROUNDINGS)[self.index].__name__}({made})" if self.inner.real else made
        where = self.path.describe(arg_names)
        if self.kind == SIDE:
            return f"side({where}, {self.bound})"
        return (
            where if self.kind in (INT, FLOAT) else f"{where}.{'size' if self.kind == SIZE else 'stride'}({self.index})"
        )


class OutOfRange(Exception):
    """A number does not fit into 64 bits: to C, the relation does not hold."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A condition on operands as postfix code: pairs of an operation and its argument."""

    operands: tuple[Operand, ...]
    code: tuple[int, ...]
    text: str  # with {0}, {1}, ... for the operands
    real: bool = False  # calculates with doubles

    def describe(self, arg_names: Sequence[str] = ()) -> str:
        return self.text.format(*(operand.describe(arg_names) for operand in self.operands))

    def holds(self, values: Sequence[Any]) -> bool:
        """The Python twin of the check, given the values at the paths of the operands."""
        if self.real:
            return self._holds_really(values)
        try:
            numbers = [read(operand, value) for operand, value in zip(self.operands, values, strict=True)]
            return bool(self._run(numbers))
        except (OutOfRange, ArithmeticError, TypeError, ValueError, IndexError):
            return False

    def _holds_really(self, values: Sequence[Any]) -> bool:
        try:
            return bool(self.double(values))
        except (OutOfRange, ArithmeticError, TypeError, ValueError, IndexError):
            return False

    def double(self, values: Sequence[Any]) -> Any:
        """What a calculation with doubles gives."""
        stack: list[Any] = []
        for op, arg in zip(self.code[::2], self.code[1::2], strict=True):
            name = _NAMES[op]
            if name == "LOAD":
                stack.append(real(self.operands[arg], values[arg]))
            elif name in ("CALL1", "CALL2"):
                given = [stack.pop() for _ in range(int(name[-1]))][::-1]
                stack.append(_finite(REAL_FUNCTIONS[name[-1], arg](*given)))
            elif name in _UNARY:
                stack.append(_UNARY[name](stack.pop()))
            else:
                right = stack.pop()
                stack.append(REAL_TWINS[name](stack.pop(), right))
        return stack.pop()

    def _run(self, numbers: list[int]) -> int:
        stack: list[int] = []
        for op, arg in zip(self.code[::2], self.code[1::2], strict=True):
            name = _NAMES[op]
            if name == "CONST":
                stack.append(arg)
            elif name == "LOAD":
                stack.append(numbers[arg])
            elif name == "POW":
                stack.append(_fitting(stack.pop() ** arg))
            elif name == "NOT":
                stack.append(int(not stack.pop()))
            elif name in ("CALL1", "CALL2"):
                given = [stack.pop() for _ in range(int(name[-1]))][::-1]
                stack.append(_fitting(INT_FUNCTIONS[name[-1], arg](*given)))
            else:
                right = stack.pop()
                stack.append(_fitting(int(TWINS[name](stack.pop(), right))))
        return stack.pop()


def read(operand: Operand, value: Any) -> int:
    """The number an operand means."""
    if operand.kind == INT:
        if type(value) is not int:
            raise TypeError
        return _fitting(value)
    if operand.kind == SIDE:
        if type(value) is not float or value != value:
            raise TypeError
        return (value > operand.bound) - (value < operand.bound)
    if operand.inner is not None:
        return _rounded(operand.inner, operand.index, value)
    with torch._C.DisableTorchFunction():
        return int(value.size(operand.index) if operand.kind == SIZE else value.stride(operand.index))


def real(operand: Operand, value: Any) -> float:
    """The double an operand means."""
    if operand.kind == NUMBER:
        return operand.bound
    if operand.kind == FLOAT:
        if type(value) is not float:
            raise TypeError
        return value
    number = read(operand, value)
    if abs(number) > 1 << 53:
        raise OutOfRange
    return float(number)


def _rounded(inner: Relation, rounding: int, values: Sequence[Any]) -> int:
    """The whole number that a calculation gives, or next to it; large doubles have none."""
    if not inner.real:
        return inner._run([read(operand, value) for operand, value in zip(inner.operands, values, strict=True)])
    try:
        number = _finite(inner.double(values))
    except (ArithmeticError, ValueError):
        raise OutOfRange from None
    if abs(number) >= 1 << 53:
        raise OutOfRange
    return int(list(ROUNDINGS)[rounding](number))


def _finite(number: float) -> float:
    if number - number != 0:
        raise OutOfRange
    return number


def _fitting(number: int) -> int:
    if not -_LIMIT <= number < _LIMIT:
        raise OutOfRange
    return number


def _shifted(number: int, bits: int) -> int:
    if not 0 <= bits < 63:
        raise OutOfRange
    return number << bits


def _raised(base: int, exponent: int) -> int:
    if exponent < 0 or (exponent > 64 and base not in (0, 1)):
        raise OutOfRange
    return int(base**exponent)


def _int_function(name: str) -> Any:
    return next(getattr(home, name) for home in (int, operator, math) if hasattr(home, name))


_NAMES = {number: name for name, number in RELATION_OPS.items() if " " not in name}
REAL_FUNCTIONS: dict[tuple[str, int], Any] = {
    (name[0], number): getattr(math, name[2:]) for name, number in RELATION_OPS.items() if name[1:2] == " "
}
_INT_TWINS = {"lshift": _shifted, "pow": _raised}  # not for numbers of any length
INT_FUNCTIONS: dict[tuple[str, int], Any] = {
    (name[3], number): _INT_TWINS.get(name[5:]) or _int_function(name[5:])
    for name, number in RELATION_OPS.items()
    if name.startswith("int")
}
# By function of Python: the step that calculates it.
INT_CALLS: dict[Any, tuple[str, int]] = {
    _int_function(name[5:]): (f"CALL{name[3]}", number)
    for name, number in RELATION_OPS.items()
    if name.startswith("int")
}
_UNARY: dict[str, Callable[[Any], Any]] = {"NOT": operator.not_, "NEG": operator.neg}
TWINS: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": lambda a, b: a + b,
    "MUL": lambda a, b: a * b,
    "FLOORDIV": lambda a, b: a // b,
    "MOD": lambda a, b: a % b,
    "MAX": max,
    "MIN": min,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "AND": lambda a, b: bool(a and b),
    "OR": lambda a, b: bool(a or b),
}
REAL_TWINS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: TWINS[name] for name in ("ADD", "MUL", "MAX", "MIN", "EQ", "NE", "LT", "LE", "GT", "GE")},
    "SUB": operator.sub,
    "DIV": operator.truediv,
}
