"""The unknowns of one capture: what polynomials are made of, and what is known about their values without asking torch.

An unknown stands for a symbol of the ShapeEnv, or for an expression that is no polynomial (a quotient, a remainder).
What can be said from lower bounds alone is said here; the rest is a question to the ShapeEnv, which makes guards of
its answers.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch

from stator.shapes import polynomial
from stator.shapes.bounding import Bounding, Unknown
from stator.shapes.expressions import is_whole
from stator.shapes.indicators import Indicators
from stator.shapes.polynomial import Monomial, Number, Polynomial
from stator.shapes.quotients import quotient
from stator.shapes.unbacked import guess

LARGEST_POWER = 8
LARGEST_LENGTH = 64  # of quotients and products of numbers from data
LARGEST_CHOICE = 6  # of maxima and minima of them: sympy compares each number with each, whenever it makes one
MOST_TERMS = 64  # larger products stay as they are
_DIVIDED = ("FloorDiv", "CleanDiv", "Mod", "PythonMod")
_CHOSEN = {"Max": operator.ge, "Min": operator.le}  # how it compares with the other one
_SIDES = {"Max": "least", "Min": "most"}  # what the numbers that it is one of bound
_BEST: dict[str, Any] = {"least": max, "most": min}  # of constants
CHOICES = {torch.sym_max: "least", torch.sym_min: "most"}


def _sympy() -> Any:
    import sympy  # heavy

    return sympy


class Unknowns(Bounding):
    """Numbers of one capture, and their forms in sympy; `env` is the ShapeEnv that knows the symbols."""

    def __init__(self, env: Any) -> None:
        super().__init__()
        self.env = env
        self._numbers: dict[Any, Number] = {}  # by expression
        self._symbols: list[frozenset[Any]] = []  # of all unknowns
        self._replaced: dict[int, Number] = {}  # unknowns that turned out to be something else
        self._version = -1  # of the replacements of the env
        self._quotients: dict[tuple[Number, int], Unknown] = {}
        self._same: dict[int, Number] = {}  # unknowns that were found to be equal to something, for comparisons
        self.indicators = Indicators(self)

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
            return polynomial.total(map(self.of, expr.args))
        if expr.is_Mul and all(map(is_whole, expr.args)):
            return self._product(expr)
        if len(expr.args) == 2 and (expr.is_Pow or type(expr).__name__ == "PowByNatural"):
            base, exponent = expr.args
            number = self.of(base)
            if exponent.is_Integer and 0 <= int(exponent) <= LARGEST_POWER and len(polynomial.terms_of(number)) < 2:
                return polynomial.power(number, int(exponent))
        if len(expr.args) == 2 and expr.args[1].is_Integer and expr.args[1] > 0 and type(expr).__name__ in _DIVIDED:
            number, divisor = self.of(expr.args[0]), int(expr.args[1])
            return self.floor(number, divisor) if "Div" in type(expr).__name__ else self.rest(number, divisor)
        if len(expr.args) == 2 and type(expr).__name__ in _DIVIDED and (whole := self._divided(*expr.args)) is not None:
            return whole if "Div" in type(expr).__name__ else 0
        if type(expr).__name__ in _DIVIDED and expr.args[0] == 1 and (told := self._told(expr.args[1])) is not None:
            return told if "Div" in type(expr).__name__ else polynomial.subtract(1, told)
        if len(expr.args) == 2 and type(expr).__name__ in _CHOSEN:
            first, second = map(self.of, expr.args)
            if self.known(_CHOSEN[type(expr).__name__], first, second):
                return first
            if self.known(_CHOSEN[type(expr).__name__], second, first):
                return second
        return self._add(expr)

    def _divided(self, number: Any, divisor: Any) -> Number | None:
        """The quotient of two expressions, if nothing is left."""
        below = self.of(divisor)
        return self.exact(self.of(number), below) if self.known(operator.ne, below, 0) else None

    def _told(self, divisor: Any) -> Number | None:
        """Whether an unknown is one, as a number."""
        sole = self._sole(self.of(divisor))
        return None if sole is None else self.indicators.of(sole.index)

    def foretold(self, relation: Any) -> bool | None:
        """Whether a relation of expressions, or one of some, holds in any case; None if it depends, or data tells."""
        if relation.is_Boolean and relation.args == ():
            return bool(relation)
        if not relation.is_Relational:
            parts = {self.foretold(part) for part in relation.args if part.is_Relational}
            return True if True in parts else None
        if any(symbol not in self.env.backed_var_to_val for symbol in relation.free_symbols):
            return None
        left, right = (self.settled(self.of(side)) for side in relation.args)
        return self.known(SIGNS[relation.rel_op], left, right)

    def floor(self, number: Number, divisor: int) -> Number:
        """The quotient by a positive number, rounded down."""
        if type(number) is int:
            return number // divisor
        found = quotient(number, divisor)
        if found.divisor and (exact := self.exact(number, divisor)) is not None:
            return exact
        if not found.divisor:
            return found.whole
        return polynomial.add(found.whole, self._quotient(found.rest, found.divisor), found.sign)

    def exact(self, number: Number, divisor: Number) -> Number | None:
        """The quotient if what was found out says that nothing is left."""
        if not self._same:
            return polynomial.quotient(number, divisor)
        known = [self._substitute(n, self._same) if type(n) is Polynomial else n for n in (number, divisor)]
        return polynomial.quotient(*known)

    def rest(self, number: Number, divisor: int) -> Number:
        """What is left when a number is divided by a positive one."""
        return polynomial.subtract(number, polynomial.multiply(divisor, self.floor(number, divisor)))

    def indicator(self, subject: Unknown) -> Unknown:
        """A new unknown: the quotient of one by another unknown, which is positive."""
        from torch.utils._sympy.functions import FloorDiv  # heavy

        expr = FloorDiv(_sympy().Integer(1), self._expr(subject.index))
        hint = None if subject.hint is None else 1 // subject.hint
        made = self._made(expr, hint, hint, 0, subject.symbols)
        made.subject = subject.index
        self._numbers[expr] = made.number
        return made

    def _quotient(self, number: Polynomial, divisor: int) -> Number:
        inner = self._inner(number)
        if inner is not None:  # a quotient of a quotient is one
            above, below = inner
            outer = polynomial.add(above, below * number.terms.get((), 0))
            return self.floor(outer, below * divisor)
        made = self._quotients.get((number, divisor))
        if made is None:
            hint, guess, low = self.hint(number), self.guessed(number), self.bounds(number)[0]
            rounded = [None if value is None else value // divisor for value in (hint, guess, low)]
            made = self._made(None, rounded[0], rounded[1], rounded[2], self.symbols_of(number))
            made.parts = number, divisor
            self._floored.add(made.index)
            made.length += self._length(number)
            self._quotients[number, divisor] = made
        return made.number

    def _inner(self, number: Polynomial) -> tuple[Polynomial, int] | None:
        """Numerator and divisor of the quotient that a number is, but for a constant."""
        monomials = [monomial for monomial in number.terms if monomial]
        if len(monomials) == 1 and len(monomials[0]) == 1 and number.terms[monomials[0]] == 1:
            return self.all[monomials[0][0]].parts
        return None

    def _product(self, expr: Any) -> Number:
        total: Number = 1
        for part in expr.args:
            factor = self.of(part)
            if len(polynomial.terms_of(total)) * len(polynomial.terms_of(factor)) > MOST_TERMS:
                return self._add(expr)
            total = polynomial.multiply(total, factor)
        return total

    def _add(self, expr: Any) -> Polynomial:
        hint = self._hint(expr)
        guess = self._guess(expr) if hint is None else hint
        made = self._made(expr, hint, guess, self._low(expr), expr.free_symbols)
        side = _SIDES.get(type(expr).__name__)
        if side is not None:
            self._choose(made, side, map(self.of, expr.args))
        return made.number

    def _made(self, expr: Any, hint: int | None, guess: int | None, low: int | None, symbols: Any) -> Unknown:
        made = Unknown(len(self.all), expr, hint, guess, low)
        made.length = 1 if expr is None or expr.is_Symbol else sum(1 for _ in _sympy().preorder_traversal(expr))
        made.symbols = frozenset(symbols)
        self._symbols.append(made.symbols)
        for symbol in made.symbols:
            self._users.setdefault(symbol, []).append(len(self.all))
        if low is None:
            self._unbounded.add(made.index)
        if low is None or low < 0:
            self._signed.add(made.index)
        self._lows.append(low or 0)
        self.all.append(made)
        return made

    def _hint(self, expr: Any) -> int | None:
        values = self.env.backed_var_to_val
        if any(symbol not in values for symbol in expr.free_symbols):
            return None
        value = expr.xreplace(values)
        return int(value) if value.is_Integer else None

    def _guess(self, expr: Any) -> int | None:
        """A value that an expression from data may have; None if it has none for the guesses of its symbols."""
        return _integer(expr.xreplace({symbol: guess(self.env, symbol) for symbol in expr.free_symbols}))

    def _low(self, expr: Any) -> int | None:
        """A lower bound that is guarded: of a symbol its range, of a maximum what follows from that."""
        if expr.is_Symbol:
            low = self.env.var_to_range[expr].lower
            return int(low) if low.is_Integer else None
        if type(expr).__name__ == "Max":
            return max((low for part in expr.args if (low := self.bounds(self.of(part))[0]) is not None), default=None)
        if type(expr).__name__ == "Min":
            lows = [self.bounds(self.of(part))[0] for part in expr.args]
            return None if None in lows else min(lows)  # type: ignore[type-var]
        return None

    def expr(self, number: Polynomial) -> Any:
        """A number as an expression of the env."""
        if number.expr is None:
            parts = self._summands(number)
            number.expr = parts[0] if len(parts) == 1 else _sympy().Add(*parts)
            self._numbers.setdefault(number.expr, number)
        return number.expr

    def both(self, difference: Polynomial) -> tuple[Any, Any]:
        """Two expressions without minus signs whose difference this is."""
        sympy = _sympy()
        sides: tuple[list[Any], list[Any]] = [], []
        for part in self._summands(difference):
            factor = part.args[0] if part.is_Mul else part
            negative = bool(factor.is_Integer and factor < 0)
            sides[negative].append(-part if negative else part)
        return sympy.Add(*sides[0]), sympy.Add(*sides[1])

    def _summands(self, number: Polynomial) -> list[Any]:
        """The terms of a number as expressions; remainders are written as such."""
        sympy = _sympy()
        found, left = [], number
        for monomial in number.terms:
            parts = self.all[monomial[0]].parts if len(monomial) == 1 else None
            if parts is not None and type(left) is Polynomial and (shorter := self._without(left, monomial)):
                times, left = shorter
                found.append(times * self._remainder(*parts))
        for monomial, c in polynomial.terms_of(left).items():
            factors = (self._expr(index) for index in monomial)
            found.append(sympy.Mul(c, *factors) if monomial else sympy.Integer(c))
        return found

    def _without(self, number: Polynomial, monomial: Monomial) -> tuple[int, Number] | None:
        """How often a remainder is part of a number, if that is shorter without it, and what is left then."""
        above, divisor = self.all[monomial[0]].parts  # type: ignore[misc]
        times, inexact = divmod(-number.terms.get(monomial, 0), divisor)
        if inexact or not times:
            return None
        whole = polynomial.subtract(above, polynomial.multiply(divisor, polynomial.made({monomial: 1})))
        left = polynomial.add(number, whole, -times)
        gone = sum(1 for part in number.terms if part) - sum(1 for part in polynomial.terms_of(left) if part)
        return (times, left) if gone == sum(1 for part in whole.terms if part) else None

    def _remainder(self, number: Polynomial, divisor: int) -> Any:
        from torch.utils._sympy.functions import Mod, PythonMod  # heavy

        least = self.bounds(number)[0]
        kind = Mod if least is not None and least >= 0 else PythonMod
        return kind(self.expr(number), _sympy().Integer(divisor))

    def _expr(self, index: int) -> Any:
        """The expression of an unknown."""
        made = self.all[index]
        if made.expr is None:
            from torch.utils._sympy.functions import FloorDiv  # heavy

            number, divisor = made.parts  # type: ignore[misc]
            made.expr = FloorDiv(self.expr(number), _sympy().Integer(divisor))
            self._numbers.setdefault(made.expr, made.number)
        return made.expr

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

    def is_long(self, function: Any, *numbers: Number) -> bool:
        """Whether what is made of numbers from data is so long that sympy would take its time."""
        length = polynomial.growth(*numbers) if function is operator.mul else sum(map(self._length, numbers))
        largest = LARGEST_CHOICE if function in CHOICES else LARGEST_LENGTH
        return length > largest and any(self.hint(number) is None for number in numbers)

    def choose(self, function: Any, made: Any, numbers: tuple[Number, ...]) -> None:
        """Takes note that a number from data is the largest or smallest of others."""
        (index,) = made.unknowns
        self._choose(self.all[index], CHOICES[function], numbers)

    def _choose(self, made: Unknown, side: str, numbers: Iterable[Number]) -> None:
        """A maximum of maxima is one; of constants there is one at most, in front."""
        made.given = tuple(numbers)
        soles = [self._sole(number) for number in made.given]
        parts = [getattr(sole, side, ()) or (number,) for sole, number in zip(soles, made.given, strict=True)]
        constants = [part[0] for part in parts if type(part[0]) is int]
        others = (part[1:] if type(part[0]) is int else part for part in parts)
        one = [_BEST[side](constants)] if constants else []
        setattr(made, side, (*one, *itertools.chain.from_iterable(others)))
        made.among = frozenset().union(
            *(sole.among for sole in soles if sole is not None),
            *(number.unknowns for number in made.given if type(number) is Polynomial),
        )
        self._chosen.add(made.index)

    def _sole(self, number: Number) -> Unknown | None:
        """The unknown that a number is, and nothing else."""
        if type(number) is int or len(number.unknowns) != 1:
            return None
        (index,) = number.unknowns
        return self.all[index] if number == self.all[index].number else None

    def _length(self, number: Number) -> int:
        """How many unknowns a number is written with, those that its quotients are made of among them."""
        return sum(self.all[index].length for monomial in polynomial.terms_of(number) for index in monomial)

    def doubtful(self, number: Polynomial) -> Number:
        """The part of a number that it is not negative without."""
        if number.linear is None or min(number.linear[1]) < 0 or number.linear[2] < 0:
            return number
        return polynomial.made({(index,): number.terms[index,] for index in number.unknowns & self._signed})

    def symbols_of(self, number: Polynomial) -> frozenset[Any]:
        """The symbols that a number is made of."""
        return frozenset().union(*map(self._symbols.__getitem__, number.unknowns))

    def at(self, number: Number, values: dict[Any, Any]) -> Any:
        """The value for these values of the symbols."""
        number = self.settled(number)
        return number if type(number) is int else int(self.expr(number).xreplace(values))

    def value(self, number: Number, values: dict[Any, int]) -> int | None:
        """The value for these values of all its symbols; None if there is none."""
        return self._valued(number, lambda unknown: self._value(unknown, values))

    def _value(self, unknown: Unknown, values: dict[Any, int]) -> int | None:
        expr = self._expr(unknown.index)
        if (known := values.get(expr)) is not None:
            return known
        return _integer(expr.xreplace(values))

    def samples(self) -> list[dict[Any, Any]]:
        """Some values that the symbols may have by what was assumed, first those of this call."""
        import sympy  # heavy

        symbols = [m.expr for m in self.all if m.parts is None and m.expr.is_Symbol and m.hint is not None]
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
                if self.all[user].parts is None:
                    replaced = self.of(self.env.replace(self.all[user].expr))
                    if replaced is not self.all[user].number:
                        self._replaced[user] = replaced
        for index in sorted(self._floored):  # of a quotient the parts come first
            number, divisor = self.all[index].parts  # type: ignore[misc]
            replaced = self.floor(self._replace(number), divisor)
            if replaced is not self.all[index].number:
                self._replaced[index] = replaced

    def _replace(self, number: Polynomial) -> Number:
        return self._substitute(number, self._replaced)

    def _substitute(self, number: Polynomial, known: dict[int, Number]) -> Number:
        """The number with something else for some unknowns, as long as there are any."""
        now: Number = number
        for _ in range(len(known) + 1):
            if type(now) is int or all(i not in known for monomial in now.terms for i in monomial):
                break
            total: Number = 0
            for monomial, c in now.terms.items():
                term: Number = c
                for i in monomial:
                    term = polynomial.multiply(term, known.get(i, self.all[i].number))
                total = polynomial.add(total, term)
            now = total
        return now

    def only(self, number: Polynomial) -> Any:
        """The symbol if a number is one plus a constant, else None."""
        monomials = [monomial for monomial in number.terms if monomial]
        if len(monomials) != 1 or len(monomials[0]) != 1 or number.terms[monomials[0]] != 1:
            return None
        found = self.all[monomials[0][0]]
        return found.expr if found.parts is None and found.expr.is_Symbol else None

    def look_again(self, symbols: Any) -> None:
        """The env has learned something about symbols: their bounds may be better."""
        for symbol in symbols:
            number = self._numbers.get(symbol)
            if number is not None and type(number) is Polynomial:
                low = self._low(symbol)
                if low is not None:
                    self._raise(self.all[next(iter(number.terms))[0]], low)
                for user in self._users.get(symbol, ()):
                    self._guess_again(self.all[user])

    def exceed(self, symbol: Any, low: int) -> None:
        """A symbol is at least so large."""
        number = self._numbers.get(symbol)
        if type(number) is Polynomial:
            self._raise(self.all[next(iter(number.terms))[0]], low)

    def _guess_again(self, made: Unknown) -> None:
        if made.hint is None and made.parts is None:
            made.guess = self._guess(made.expr)
        elif made.hint is None and made.parts is not None:
            above = self.guessed(made.parts[0])
            made.guess = None if above is None else above // made.parts[1]

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
        if self._same and type(difference) is Polynomial:
            difference = self._substitute(difference, self._same)
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


def _integer(value: Any) -> int | None:
    """A number of sympy or of Python as an int; None if it is none."""
    return int(value) if isinstance(value, int) or value.is_Integer else None


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

SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}  # by their signs

# Comparison -> the one that is asked, and whether its answer is the opposite.
QUESTIONS: dict[Any, tuple[Any, bool]] = {
    operator.eq: (operator.eq, False),
    operator.ne: (operator.eq, True),
    operator.lt: (operator.lt, False),
    operator.ge: (operator.lt, True),
    operator.le: (operator.le, False),
    operator.gt: (operator.le, True),
}
