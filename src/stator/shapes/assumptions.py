"""What is assumed of numbers that only data tells, and checked when the graph runs; bounds of slices among it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from stator.shapes.arithmetic import number_of
from stator.shapes.polynomial import Number, Polynomial
from stator.shapes.questions import Questions
from stator.shapes.scalar import TracedBool
from stator.shapes.unbacked import RELATIONS, guess
from stator.shapes.unknowns import QUESTIONS

SHORT = 3  # longer sums are not given to sympy where that can be
SOLVABLE = 16  # nor equations of more numbers, which it would solve for one of them


@dataclass(frozen=True)
class Comparison:
    """How a sum of many numbers compares with zero; torch is not asked about it."""

    function: Any
    difference: Polynomial
    free_symbols: frozenset[Any]

    def __str__(self) -> str:
        return f"a sum of {len(self.difference.terms)} numbers is within its bound"


class Assumptions(Questions):
    """What the graph holds for only."""

    def __init__(self, env: Any, unbacked: bool) -> None:
        super().__init__(env, unbacked)
        self.answering = unbacked  # capture goes on: assumptions can still become part of the graph
        self.assertions: list[tuple[Any, str]] = []  # conditions to be checked when the graph runs, and what to say
        self.message = ""
        self.sizes: dict[Any, int] = {}  # sizes of inputs that nothing may follow from
        self.required: list[tuple[Any, Any]] = []  # conditions on them alone, which are guards; and their origins
        self.bounded = False  # some bounds of slices are assumed to lie inside
        self.clamps = False  # they are not: they end where the dimension does
        self.doubt: str | None = None  # why the capture cannot be trusted: C code may have seen what is no int

    def assume(self, condition: Any, message: str = "") -> None:
        """The graph holds only if this does."""
        condition = condition.expr if type(condition) is TracedBool else condition
        if type(condition) is not bool:
            self.message = message
            self.env.guard_or_defer_runtime_assert(condition, "assumed")
            self.message = ""

    def suppose(self, function: Any, a: Any, b: Any, message: str = "") -> None:
        """The graph holds only if this comparison of numbers does; what follows for one symbol is not asked of the env,
        which thinks long."""
        left, right = number_of(a), number_of(b)
        if self.unknowns.known(function, left, right) is not None:
            return
        difference = self.unknowns.difference(left, right)
        asked, opposite = QUESTIONS[function]
        if self._answers.get((asked, difference)) is (not opposite):
            return
        self.message = message
        most = SOLVABLE if function is operator.eq else SHORT
        if is_long(difference, most) and not self.sizes:
            self.require(Comparison(function, difference, self.unknowns.symbols_of(difference)))
            self._note(asked, difference, not opposite)
            return
        sides = self.unknowns.both(difference)
        if self._narrowed(function, difference):
            self.require(RELATIONS[function](*sides, evaluate=False))
        else:
            self.env.guard_or_defer_runtime_assert(RELATIONS[function](*sides), "assumed")
        self.message = ""
        self._note(asked, difference, not opposite)

    def _narrowed(self, function: Any, difference: Polynomial) -> bool:
        """Narrows the range of the one symbol that a difference is made of; False if it is none."""
        from torch.utils._sympy.numbers import int_oo  # heavy
        from torch.utils._sympy.value_ranges import ValueRanges

        symbol = self.unknowns.only(difference)
        if symbol is None or function not in _RANGES:
            return False
        low, high = _RANGES[function](-difference.terms.get((), 0))
        known = self.env.var_to_range[symbol]
        low = known.lower if low is None else max(known.lower, low)
        high = known.upper if high is None else min(known.upper, high)
        if low >= high and high is not int_oo:  # the env takes that for a constant, or for a contradiction
            return False
        self.env.var_to_range[symbol] = ValueRanges(low, high)
        self.env._update_version_counter()
        self.unknowns.look_again((symbol,))
        return True

    def require(self, condition: Any) -> None:
        """A condition that was assumed: a guard if the inputs tell, else to be checked when the graph runs."""
        values = {**self.env.backed_var_to_val, **self.sizes} if self.sizes else {}
        if not self.sizes or not condition.free_symbols <= values.keys():
            self.assertions.append((condition, self.message))
        elif condition.xreplace(values):
            self.required.append((condition, self.env.origin()))
        else:
            self.doubt = f"{condition} was assumed of a size that was marked as any"

    def within(self, bound: Any, low: Any, size: Any) -> Any:
        """A bound of a slice that only data tells, assumed to lie inside or put there; counted from the start."""
        self.bounded = True
        if self._is_from_end(bound, size):
            self.suppose(operator.lt, bound, 0)
            bound = bound + size
        else:
            self.suppose(operator.ge, bound, 0)
        if self.clamps:
            return self.clamped(bound, low, size)
        self.suppose(operator.ge, bound, low)
        self.suppose(operator.le, bound, size)
        return bound

    def clamped(self, bound: Any, low: Any, size: Any) -> Any:
        """What Python makes of a bound that is not negative: it ends where the dimension does."""
        least = self._computed(torch.sym_min, (number_of(bound), number_of(size)))
        return self._computed(torch.sym_max, (number_of(least), number_of(low)))

    def _is_from_end(self, bound: Any, size: Any) -> bool:
        """Whether a bound is rather negative: if the numbers that it is made of are about half of the size."""
        number, whole = map(self.unknowns.settled, (number_of(bound), number_of(size)))
        if self.unknowns.known(operator.ge, number, 0) or self._answers.get((operator.lt, number)) is False:
            return False
        length = self.unknowns.guessed(whole)
        return self._seems_negative(self.unknowns.doubtful(number), length) and self._seems_negative(number, length)

    def _seems_negative(self, number: Number, length: int | None) -> bool:
        if type(number) is int:
            return number < 0
        guesses = {symbol: self._halved(symbol, length) for symbol in self.unknowns.symbols_of(number)}
        value = self.unknowns.value(number, guesses)
        return value is not None and value < 0

    def _halved(self, symbol: Any, length: int | None) -> int:
        """A guess of a symbol as part of a bound: about half of the size, if only data tells."""
        value = guess(self.env, symbol)
        if length is None or symbol in self.env.backed_var_to_val:
            return value
        return min(value, max(length // 2, self._least(symbol)))

    def _least(self, symbol: Any) -> int:
        low = self.env.var_to_range[symbol].lower
        return int(low) if low.is_Integer else 1


def is_long(number: Number, most: int = SHORT) -> bool:
    """Whether a number is a sum of so many that sympy takes long."""
    return type(number) is Polynomial and len(number.terms) > most


# What a comparison with a border says about the least and the largest value.
_RANGES: dict[Any, Callable[[int], tuple[int | None, int | None]]] = {
    operator.ge: lambda border: (border, None),
    operator.gt: lambda border: (border + 1, None),
    operator.le: lambda border: (None, border),
    operator.lt: lambda border: (None, border - 1),
}
