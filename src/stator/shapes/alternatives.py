"""Floats that a comparison chooses: `0.1 * step / 4 if step < 4 else 0.1`, one calculation for all steps.

A term is a function with its arguments that nobody has calculated yet, as one side of a branch may have no value in
this call. Leaves are symbolic numbers. The whole is one function of Python, which goes one way when it is called.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from stator.code.operators import COMPARE, SIGNS
from stator.shapes.calculations import choose, literal

MOST_TERMS = 256  # of one calculation

_SIGNS = {**{function: sign for function, (_, sign) in SIGNS.items()}, **{value: key for key, value in COMPARE.items()}}


class Term(NamedTuple):
    """A function and its arguments: terms, numbers."""

    function: Any
    args: tuple[Any, ...]


class NoText(Exception):
    """A term that is too long, or holds what is no number."""


class _Writer:
    """The source of a function that calculates a term."""

    def __init__(self) -> None:
        self.leaves: dict[int, tuple[str, Any]] = {}  # by identity: a symbolic number and its name
        self.functions: dict[str, Any] = {}
        self.count = 0

    def text(self, term: Any) -> str:
        self.count += 1
        if self.count > MOST_TERMS:
            raise NoText
        if type(term) is not Term:
            return self.leaf(term)
        parts = [self.text(arg) for arg in term.args]
        if term.function is choose:
            return f"({parts[1]} if {parts[0]} else {parts[2]})"
        if term.function is operator.neg:
            return f"(-{parts[0]})"
        if (sign := _SIGNS.get(term.function)) is not None:
            return f"({parts[0]} {sign} {parts[1]})"
        name = f"_{term.function.__name__}"
        self.functions[name] = term.function
        return f"{name}({', '.join(parts)})"

    def leaf(self, number: Any) -> str:
        if (known := literal(number)) is not None:
            return known
        if type(number) in (int, float, bool):
            raise NoText
        return self.leaves.setdefault(id(number), (f"a{len(self.leaves)}", number))[0]


class Alternatives:
    """The function that calculates a float which comparisons choose; `settle` goes one way, with a guard."""

    __slots__ = ("leaves", "run", "settle", "settled", "term")

    def __init__(self, term: Term, settle: Callable[[Term], Any]) -> None:
        writer = _Writer()
        body = writer.text(term)
        self.leaves = tuple(leaf for _, leaf in writer.leaves.values())
        names = ", ".join(name for name, _ in writer.leaves.values())
        self.run = eval(f"lambda {names}: {body}", writer.functions)
        self.settled: Any = None
        self.term, self.settle = term, settle

    def __call__(self, *values: Any) -> float:
        made = self.run(*values)
        if type(made) is not float:
            raise TypeError("the program goes on with another type")
        return made

    def side(self) -> Any:
        """The float as the side gives it that this call takes; that it does is guarded."""
        if self.settled is None:
            self.settled = self.settle(self.term)
        return self.settled
