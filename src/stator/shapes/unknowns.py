"""The unknowns of one capture: what polynomials are made of, and what is known about their values without asking torch.

An unknown stands for a symbol of the ShapeEnv, or for an expression that is no polynomial (a quotient, a remainder).
What can be said from lower bounds alone is said here; the rest is a question to the ShapeEnv, which makes guards of
its answers.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from stator.shapes import polynomial
from stator.shapes.polynomial import Monomial, Number, Polynomial
from stator.shapes.unbacked import guess

LARGEST_POWER = 8
MOST_TERMS = 64  # larger products stay as they are

Bounds = tuple[int | None, int | None]


class Unknown:
    """One unknown: its expression, its value in this call (None if nobody knows) or a guess, and its least value."""

    __slots__ = ("expr", "guess", "hint", "low", "number")

    def __init__(self, index: int, expr: Any, hint: int | None, guess: int | None, low: int | None) -> None:
        self.expr = expr
        self.hint = hint
        self.guess = guess
        self.low = low
        self.number = polynomial.unknown(index)


class Unknowns:
    """Numbers of one capture, and their forms in sympy; `env` is the ShapeEnv that knows the symbols."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.all: list[Unknown] = []
        self._numbers: dict[Any, Number] = {}  # by expression
        self._replaced: dict[int, Number] = {}  # unknowns that turned out to be something else
        self._users: dict[Any, list[int]] = {}  # by symbol: the unknowns whose expressions it is in
        self._version = -1  # of the replacements of the env
        self._facts = 0  # how often a lower bound became known

    # ---- from and to expressions ----------------------------------------------------------------

    def of(self, expr: Any) -> Number:
        """The number that an expression of the env is."""
        found = self._numbers.get(expr)
        if found is None:
            found = self._numbers[expr] = self._of(expr)
        return found

    def _of(self, expr: Any) -> Number:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._add(expr)
        if expr.is_Add:
            total: Number = 0
            for part in expr.args:
                total = polynomial.add(total, self.of(part))
            return total
        if expr.is_Mul and all(part.is_integer for part in expr.args):
            return self._product(expr)
        if len(expr.args) == 2 and (expr.is_Pow or type(expr).__name__ == "PowByNatural"):
            base, exponent = expr.args
            if exponent.is_Integer and 0 <= int(exponent) <= LARGEST_POWER and base.is_Symbol:
                return polynomial.power(self.of(base), int(exponent))
        return self._add(expr)

    def _product(self, expr: Any) -> Number:
        total: Number = 1
        for part in expr.args:
            factor = self.of(part)
            if len(polynomial.terms_of(total)) * len(polynomial.terms_of(factor)) > MOST_TERMS:
                return self._add(expr)
            total = polynomial.multiply(total, factor)
        return total

    def _add(self, expr: Any) -> Polynomial:
        index = len(self.all)
        hint = self._hint(expr)
        made = Unknown(index, expr, hint, self._guess(expr) if hint is None else hint, self._low(expr))
        self.all.append(made)
        for symbol in expr.free_symbols:
            self._users.setdefault(symbol, []).append(index)
        return made.number

    def _hint(self, expr: Any) -> int | None:
        values = self.env.backed_var_to_val
        if any(symbol not in values for symbol in expr.free_symbols):
            return None
        value = expr.xreplace(values)
        return int(value) if value.is_Integer else None

    def _guess(self, expr: Any) -> int | None:
        """A value that an expression from data may have; None if it has none for the guesses of its symbols."""
        value = expr.xreplace({symbol: guess(self.env, symbol) for symbol in expr.free_symbols})
        return int(value) if isinstance(value, int) or value.is_Integer else None

    def _low(self, expr: Any) -> int | None:
        """A lower bound that is guarded: of a symbol its range, of a quotient what follows from that."""
        if expr.is_Symbol:
            low = self.env.var_to_range[expr].lower
            return int(low) if low.is_Integer else None
        if type(expr).__name__ in ("FloorDiv", "CleanDiv") and expr.args[1].is_Integer and expr.args[1] > 0:
            low = self.bounds(self.of(expr.args[0]))[0]
            return None if low is None else low // int(expr.args[1])
        if type(expr).__name__ in ("Mod", "PythonMod") and expr.args[1].is_Integer and expr.args[1] > 0:
            return 0
        if type(expr).__name__ == "Max":
            return max((low for part in expr.args if (low := self.bounds(self.of(part))[0]) is not None), default=None)
        return None

    def expr(self, number: Polynomial) -> Any:
        """A number as an expression of the env."""
        if number.expr is None:
            import sympy  # heavy

            terms = [
                sympy.Mul(c, *(self.all[index].expr for index in monomial)) if monomial else sympy.Integer(c)
                for monomial, c in number.terms.items()
            ]
            number.expr = terms[0] if len(terms) == 1 else sympy.Add(*terms)
            self._numbers.setdefault(number.expr, number)
        return number.expr

    # ---- what is known --------------------------------------------------------------------------

    def hint(self, number: Number) -> int | None:
        """The value in this call; None if nobody knows."""
        return self._valued(number, operator.attrgetter("hint"))

    def guessed(self, number: Number) -> int | None:
        """The value in this call, or for guesses of what only data tells; None if there is none."""
        return self._valued(number, operator.attrgetter("guess"))

    def _valued(self, number: Number, value_of: Callable[[Any], int | None]) -> int | None:
        if type(number) is int:
            return number
        total = 0
        for monomial, c in number.terms.items():
            for index in monomial:
                value = value_of(self.all[index])
                if value is None:
                    return None
                c *= value
            total += c
        return total

    def symbols_of(self, number: Polynomial) -> frozenset[Any]:
        """The symbols that a number is made of."""
        found = {index for monomial in number.terms for index in monomial}
        return frozenset().union(*(self.all[index].expr.free_symbols for index in found))

    def at(self, number: Number, values: dict[Any, Any]) -> Any:
        """The value for these values of the symbols."""
        number = self.settled(number)
        return number if type(number) is int else int(self.expr(number).xreplace(values))

    def samples(self) -> list[dict[Any, Any]]:
        """Some values that the symbols may have by what was assumed, first those of this call."""
        import sympy  # heavy

        symbols = [made.expr for made in self.all if made.expr.is_Symbol and made.hint is not None]
        tried = [{s: sympy.Integer(2 + i * k + k) for i, s in enumerate(symbols)} for k in (1, 2, 3, 7, 30)]
        guards = [guard.expr for guard in self.env.guards]
        fitting = [values for values in tried if all(guard.xreplace(values) == sympy.true for guard in guards)]
        return [dict(self.env.backed_var_to_val), *fitting]

    def settled(self, number: Number) -> Number:
        """The number as it is by what was found out in the meantime: unknowns may be equal, or constants."""
        if type(number) is int or self.env._replacements_version_counter == 0:
            return number
        if self._version != self.env._replacements_version_counter:
            self._learn()
        if not self._replaced:
            return number
        if number.settled is None or number.settled[0] != self._version:
            number.settled = self._version, self._replace(number)
        return number.settled[1]

    def _learn(self) -> None:
        """Takes over the replacements that the env has made since."""
        self._version = self.env._replacements_version_counter
        for symbol in reversed(self.env.replacements):  # newest first
            own = self._numbers.get(symbol)
            index = next(iter(own.terms))[0] if own is not None else -1
            if index in self._replaced:
                break
            for user in self._users.get(symbol, ()):
                replaced = self.of(self.env.replace(self.all[user].expr))
                if replaced is not self.all[user].number:
                    self._replaced[user] = replaced

    def _replace(self, number: Polynomial) -> Number:
        now: Number = number
        for _ in range(len(self._replaced) + 1):
            if type(now) is int or all(i not in self._replaced for monomial in now.terms for i in monomial):
                break
            total: Number = 0
            for monomial, c in now.terms.items():
                term: Number = c
                for i in monomial:
                    term = polynomial.multiply(term, self._replaced.get(i, self.all[i].number))
                total = polynomial.add(total, term)
            now = total
        return now

    def bounds(self, number: Number) -> Bounds:
        """The least and the largest value that are certain from lower bounds."""
        if type(number) is int:
            return number, number
        if number.bounds is None or number.bounds[0] != self._facts:
            number.bounds = self._facts, self._bounds(number)
        return number.bounds[1]

    def holds(self, function: Any, difference: Polynomial, answer: bool) -> None:
        """Takes note of an answer that is guarded now: a lower bound of one unknown may follow from it."""
        monomials = [monomial for monomial in difference.terms if monomial]
        if len(monomials) != 1 or len(monomials[0]) != 1 or difference.terms[monomials[0]] != 1:
            return
        found = self.all[monomials[0][0]]
        border = -difference.terms.get((), 0)  # what the unknown was compared with
        low = None
        if not answer:
            low = _LOWER[function](border, found.low)
        if low is not None and (found.low is None or low > found.low):
            found.low = low
            self._facts += 1

    def only(self, number: Polynomial) -> Any:
        """The symbol if a number is one plus a constant, else None."""
        monomials = [monomial for monomial in number.terms if monomial]
        if len(monomials) != 1 or len(monomials[0]) != 1 or number.terms[monomials[0]] != 1:
            return None
        expr = self.all[monomials[0][0]].expr
        return expr if expr.is_Symbol else None

    def look_again(self, symbols: Any) -> None:
        """The env has learned something about symbols: their bounds may be better."""
        for symbol in symbols:
            number = self._numbers.get(symbol)
            if number is not None and type(number) is Polynomial:
                found = self.all[next(iter(number.terms))[0]]
                low = self._low(symbol)
                if low is not None and (found.low is None or low > found.low):
                    found.low = low
                    self._facts += 1
                for user in self._users.get(symbol, ()):
                    if self.all[user].hint is None:
                        self.all[user].guess = self._guess(self.all[user].expr)

    def _bounds(self, number: Polynomial) -> Bounds:
        """In what exceeds the lower bounds of the unknowns, coefficients of one sign bound the value on one side."""
        if any(self.all[i].low is None for monomial in number.terms for i in monomial):
            return None, None
        if all(len(monomial) < 2 for monomial in number.terms):  # nothing to multiply out
            least = sum(c * self.all[m[0]].low if m else c for m, c in number.terms.items())  # type: ignore[operator, misc]
            signs = [c > 0 for m, c in number.terms.items() if m]
            return (least if all(signs) else None), (least if not any(signs) else None)
        shifted: dict[Monomial, int] = {}
        for monomial, c in number.terms.items():
            for kept in itertools.product((True, False), repeat=len(monomial)):
                part, left = c, []
                for index, keep in zip(monomial, kept, strict=True):
                    if keep:
                        left.append(index)
                    else:
                        part *= self.all[index].low  # type: ignore[operator]
                key = tuple(left)
                shifted[key] = shifted.get(key, 0) + part
        least = shifted.pop((), 0)
        signs = [c > 0 for c in shifted.values() if c]
        return (least if all(signs) else None), (least if not any(signs) else None)

    def known(self, function: Any, a: Number, b: Number) -> bool | None:
        """Whether a comparison holds in any case; None if that depends."""
        difference = self.difference(a, b)
        if type(difference) is int:
            return bool(function(difference, 0))
        low, high = self.bounds(difference)
        return _VERDICTS[function](low, high)

    def difference(self, a: Number, b: Number) -> Number:
        """a - b, divided by a factor that is positive: compares with zero as a compares with b."""
        difference = self.settled(polynomial.subtract(a, b))
        if type(difference) is int:
            return difference
        factor, common = polynomial.content(difference)
        common = tuple(index for index in common if (self.all[index].low or 0) > 0)
        if factor == 1 and not common:
            return difference
        terms = {polynomial.without(monomial, common): c // factor for monomial, c in difference.terms.items()}
        return polynomial.made(terms)  # type: ignore[arg-type]

    def sides(self, difference: Polynomial) -> tuple[Number, Number]:
        """Two numbers without minus signs whose difference this is."""
        left = {monomial: c for monomial, c in difference.terms.items() if c > 0}
        right = {monomial: -c for monomial, c in difference.terms.items() if c < 0}
        return polynomial.made(left), polynomial.made(right)


def _differ(low: int | None, high: int | None) -> bool | None:
    return True if (low is not None and low > 0) or (high is not None and high < 0) else None


def _not(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _less(low: int | None, high: int | None, limit: int = 0) -> bool | None:
    """Whether a value within bounds is less than the limit."""
    if high is not None and high < limit:
        return True
    return False if low is not None and low >= limit else None


_VERDICTS: dict[Any, Any] = {
    operator.eq: lambda low, high: _not(_differ(low, high)),
    operator.ne: _differ,
    operator.lt: _less,
    operator.ge: lambda low, high: _not(_less(low, high)),
    operator.le: lambda low, high: _less(low, high, 1),
    operator.gt: lambda low, high: _not(_less(low, high, 1)),
}

# Comparison -> the one that is asked, and whether its answer is the opposite.
QUESTIONS: dict[Any, tuple[Any, bool]] = {
    operator.eq: (operator.eq, False),
    operator.ne: (operator.eq, True),
    operator.lt: (operator.lt, False),
    operator.ge: (operator.lt, True),
    operator.le: (operator.le, False),
    operator.gt: (operator.le, True),
}

# What is at least true of a number for which a comparison with a border does not hold.
_LOWER: dict[Any, Any] = {
    operator.eq: lambda border, low: border + 1 if low == border else None,
    operator.lt: lambda border, low: border,
    operator.le: lambda border, low: border + 1,
}
