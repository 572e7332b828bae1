"""Numbers of a capture: ints and polynomials in its unknowns, as the program and torch see them; calculations."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from stator.errors import Location
from stator.shapes import polynomial
from stator.shapes.calculations import COUNT, Kind
from stator.shapes.calculations import INT as ANY_INT
from stator.shapes.equalities import Equalities
from stator.shapes.polynomial import Number, Polynomial
from stator.shapes.scalar import LARGEST_POWER, TracedBool, TracedInt
from stator.shapes.unknowns import CHOICES

LARGEST_VALUE = 1 << 55  # guesses beyond are no sizes of tensors


class Arithmetic:
    """Calculates with symbolic ints; what polynomials cannot say is left to torch's own, or to the graph."""

    def __init__(self, env: Any, unbacked: bool) -> None:
        self.env = env
        self.unknowns = Equalities(env)
        self.unbacked = unbacked  # whether data may become symbols
        self.floats: Any = None  # the symbolic floats of the capture
        self.stack: Callable[[], Sequence[Location]] = list  # the user's frames; set by the host
        self._ints: dict[Polynomial, TracedInt] = {}  # what the program sees
        self._plain: dict[Polynomial, Any] = {}  # what torch calculates with
        self._results: dict[Any, Number] = {}  # of operations that are not done here

    def wrap(self, value: Any) -> Any:
        """A result of torch as the captured program may see it."""
        if type(value) is torch.SymInt:
            return self.traced(self.unknowns.of(value.node.expr))
        if type(value) is torch.SymBool:
            expr = value.node.expr
            return bool(value) if expr.free_symbols <= self.env.backed_var_to_val.keys() else self.truth(expr)
        return value

    def traced(self, number: Number) -> Any:
        """A number as the captured program may see it: an int, or a stand-in for one."""
        number = self.unknowns.settled(number)
        if type(number) is int:
            return number
        found = self._ints.get(number)
        if found is None:
            found = self._ints[number] = TracedInt(number, cast(Any, self))
        return found

    def plain(self, number: Number) -> Any:
        """A number as torch may see it."""
        if type(number) is int:
            return number
        found = self._plain.get(number)
        if found is None:
            hint = self.unknowns.hint(number)
            found = self._plain[number] = self.env.create_symintnode(self.unknowns.expr(number), hint=hint)
        return found

    def symint(self, symbol: Any) -> Any:
        """The symbol as torch's own symbolic int."""
        value = self.env.backed_var_to_val.get(symbol)
        return self.env.create_symintnode(symbol, hint=None if value is None else int(value))

    def values(self, sizes: Sequence[Number], strides: Sequence[Number], offset: Number) -> list[Any]:
        """Values in this call, or guesses, for what nobody looks at; torch's own where no tensor is like that."""
        numbers = (*sizes, *strides, offset)
        values = [self.unknowns.guessed(number) for number in numbers]
        if all(value is not None and 0 <= value < LARGEST_VALUE for value in values):
            extents = zip(values[: len(sizes)], values[len(sizes) : -1], strict=True)
            if sum(size * stride for size, stride in extents) < LARGEST_VALUE:  # type: ignore[operator, misc]
                return values
        return [self.plain(n) if self.unknowns.hint(n) is None else self.unknowns.hint(n) for n in numbers]

    def expr(self, number: Number) -> Any:
        """A number as an expression, by what is known now."""
        number = self.unknowns.settled(number)
        if type(number) is int:
            import sympy  # heavy

            return sympy.Integer(number)
        return self.unknowns.expr(number)

    def condition(self, expr: Any) -> torch.SymBool:
        """A condition as torch's own."""
        from torch.fx.experimental.sym_node import SymNode  # heavy

        return torch.SymBool(SymNode(expr, self.env, bool, None))

    def truth(self, expr: Any) -> Any:
        """What a condition on numbers from data is: known in any case, or not yet."""
        known = self.env._maybe_evaluate_static(expr)
        return TracedBool(expr, cast(Any, self), self.stack()) if known is None else bool(known)

    def combined(self, function: Any, left: TracedBool, right: TracedBool | bool) -> Any:
        """A condition on conditions."""
        import sympy  # heavy

        join = sympy.And if function is operator.and_ else sympy.Or
        return self.truth(join(left.expr, right.expr if type(right) is TracedBool else right))

    def compute(self, function: Any, *args: Any) -> Any:
        """The result of an operator on symbolic ints and ints."""
        numbers = tuple(map(number_of, args))
        if self.unbacked and function not in _SUMS and self.unknowns.is_long(function, *numbers):
            return self._shortened(function, numbers)
        return self._computed(function, numbers)

    def extreme(self, function: Any, *args: Any) -> Any:
        """The largest or smallest of symbolic ints and ints."""
        numbers = tuple(map(number_of, args))
        if self.unbacked and self.unknowns.is_long(function, *numbers):
            return self._shortened(function, numbers)
        return functools.reduce(functools.partial(self.compute, function), args)

    def are_many(self, function: Any, lengths: Sequence[Any]) -> bool:
        """Whether data tells some of these numbers, and there are more than sympy can well take the largest of."""
        return self.unbacked and self.unknowns.is_long(function, *map(number_of, lengths))

    def choose(self, function: Any, made: Any, lengths: Sequence[Any]) -> None:
        """Takes note that a number from data is the largest or smallest of others."""
        self.unknowns.choose(function, number_of(made), tuple(map(number_of, lengths)))

    def _computed(self, function: Any, numbers: tuple[Number, ...]) -> Any:
        made = self._calculated(function, numbers)
        if made is None:
            made = self._results.get((function, numbers))
            if made is None:
                result = function(*map(self.plain, numbers))
                if type(result) not in (int, torch.SymInt):
                    return self.wrap(result)
                made = result if type(result) is int else self.unknowns.of(result.node.expr)
                self._results[function, numbers] = made
        return self.traced(made)

    def _shortened(self, function: Any, numbers: tuple[Number, ...]) -> Any:
        """The result as a number of its own, which Python calculates in the graph."""
        divisor = numbers[-1] if function is operator.mod else None
        if type(divisor) is int and divisor > 0:
            kind = Kind(int, 0, divisor - 1)
        else:
            lows = [self.unknowns.bounds(number)[0] for number in numbers]
            kind = COUNT if all(low is not None and low >= 0 for low in lows) else ANY_INT
        made = self.floats.evaluate(_PLAIN.get(function, function), tuple(map(self.traced, numbers)), kind)
        if function in CHOICES:
            self.choose(function, made, numbers)
        return made

    def _calculated(self, function: Any, numbers: tuple[Number, ...]) -> Number | None:
        """What a polynomial can say."""
        direct = _DIRECT.get(function)
        if direct is not None:
            return direct(*numbers)
        if function is operator.pow:
            base, exponent = numbers
            small = type(exponent) is int and 0 <= exponent <= LARGEST_POWER and len(polynomial.terms_of(base)) < 3
            return polynomial.power(base, exponent) if small else None
        if function in (operator.floordiv, operator.mod):
            left, right = map(self.unknowns.settled, numbers)
            if type(right) is int and right > 0:
                return (self.unknowns.floor if function is operator.floordiv else self.unknowns.rest)(left, right)
            if self.unknowns.known(operator.ne, right, 0):
                exact = self.unknowns.exact(left, right)
                return exact if exact is None or function is operator.floordiv else 0
        return None


def number_of(value: Any) -> Number:
    """A symbolic int or an int as a number."""
    kind = type(value)
    if kind is TracedInt:
        return value.number
    if kind is torch.SymInt:
        return value.node.shape_env.symbols.unknowns.of(value.node.expr)
    return value if kind is int or kind is Polynomial else int(value)


_DIRECT: dict[Any, Callable[..., Number]] = {
    operator.add: polynomial.add,
    operator.sub: polynomial.subtract,
    operator.mul: polynomial.multiply,
    operator.neg: lambda a: polynomial.multiply(a, -1),
}


_SUMS = frozenset({operator.add, operator.sub, operator.neg})  # they are no longer than their parts together


_PLAIN = {torch.sym_max: max, torch.sym_min: min}
