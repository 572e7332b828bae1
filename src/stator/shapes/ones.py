"""Sizes from outside that may be one, as long as nobody needs to know.

Where an answer would be the same for all sizes but one, the size is guarded not to be one, and that is all: no further
relation follows from it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from stator.shapes import polynomial
from stator.shapes.polynomial import Number, Polynomial
from stator.shapes.unknowns import SIGNS, Unknowns


class Denial(NamedTuple):
    """A size that is one cannot be taken for another one, because of this place in the program (None: a backend)."""

    origin: Any


class Ones:
    """The symbols of one capture that may be one; `pretended`: those that are not taken for what they are in the call:
    ones, and sizes of which something is one."""

    def __init__(self, env: Any, unknowns: Unknowns) -> None:
        self.env = env
        self.unknowns = unknowns
        self.undecided: dict[Any, int] = {}  # by symbol: its place in the order of their coming
        self._order = itertools.count()
        self.pretended: dict[Any, int] = {}  # by symbol: its size in this call
        self.places: dict[Any, Any] = {}  # by symbol that is not one: where the program needed to know
        self._looked = 0  # guards that hold for this call
        self._overlooked: set[int] | None = None  # unknowns that are taken not to be one by what is asked now
        self.enlarges = False  # the capture may start again with larger sizes
        self.flat: list[Polynomial] = []  # what was calculated of sizes and is one in this call, which was asked

    def add(self, symbol: Any, value: int | None) -> None:
        """A size that may be one; `value`: what it is in this call, if that is not its hint."""
        self.undecided[symbol] = next(self._order)
        if value is not None:
            self.pretended[symbol] = value

    def decides(self, function: Any, a: Number, b: Number) -> bool | None:
        """What a comparison comes to unless a size is one, which is guarded not to be; None: that is not the point."""
        if self._overlooked is not None:
            return self._overlook(function, a, b)
        if self.enlarges and function in (operator.eq, operator.ne):
            self._notice(a, b)
        if function in (operator.eq, operator.ne) and _is_about_product(a, b):
            return None  # any of the sizes may be one, as long as not all are: a relation says that
        found = self._symbols(a) | self._symbols(b)
        symbols = sorted(found, key=self.undecided.__getitem__, reverse=True)
        symbols = [symbol for symbol in symbols if self._may_be(symbol)]
        symbols.sort(key=self.pretended.__contains__)  # of the others the last one first: an image is rarely one wide
        for some in ([[symbol] for symbol in symbols] if len(symbols) > 1 else []) + [symbols]:
            known = self._unless_one(some, function, a, b) if some else None
            if known is not None:
                self._exclude(some)
                return known
        return None

    def meet(self, number: Polynomial) -> None:
        """A calculated size is one in this call, and that matters."""
        if self.enlarges:
            self.flat.append(number)

    def look(self, relation: Any) -> None:
        """Torch asks how expressions compare, without an answer that holds unless a size is one."""
        if self.enlarges and relation.rel_op in ("==", "!="):
            self._notice(*map(self.unknowns.of, relation.args))

    def _notice(self, a: Number, b: Number) -> None:
        """The same, where a comparison with one holds in this call."""
        difference = self.unknowns.difference(a, b)
        if type(difference) is not Polynomial or self.unknowns.hint(difference) != 0:
            return
        constant = difference.terms.get((), 0)
        number = polynomial.multiply(polynomial.subtract(difference, constant), -constant)
        if abs(constant) == 1 and type(number) is Polynomial and all(c > 0 for c in number.terms.values()):
            self.meet(number)

    @contextmanager
    def overlooked(self) -> Iterator[set[int]]:
        """A context in which sizes are not one, as far as that answers a question; nothing is guarded. What comes of it
        are the unknowns that there was such a question about."""
        before, self._overlooked = self._overlooked, set()
        try:
            yield self._overlooked
        finally:
            self._overlooked = before

    def foretells(self, relation: Any) -> bool | None:
        """The same for a relation of expressions."""
        if not self.undecided or not relation.is_Relational or not self.undecided.keys() & relation.free_symbols:
            return None
        if any(symbol not in self.env.backed_var_to_val for symbol in relation.free_symbols):
            return None
        left, right = (self.unknowns.settled(self.unknowns.of(side)) for side in relation.args)
        known = self.unknowns.known(SIGNS[relation.rel_op], left, right)
        return self.decides(SIGNS[relation.rel_op], left, right) if known is None else known

    def would_be(self, relation: Any) -> bool | None:
        """What a relation comes to unless a size is one; nothing is guarded."""
        with self.overlooked():
            return self.foretells(relation)

    def are_among(self, expr: Any) -> bool:
        """Whether an expression is about a size that may be one."""
        return any(map(self._may_be, self.undecided.keys() & expr.free_symbols))

    def denial(self) -> Denial | None:
        """What was found out by now that does not hold for the sizes of this call."""
        if not self.pretended:
            return None
        for symbol in self.pretended:
            if self.pretended[symbol] not in self.env.var_to_range[symbol]:
                return Denial(self.places.get(symbol))
        values = {**self.env.backed_var_to_val, **self.pretended}
        fresh = self.env.guards[self._looked :]
        self._looked = len(self.env.guards)
        denying = (guard for guard in fresh if guard.expr.xreplace(values) == False)  # noqa: E712 - sympy's
        return next((Denial(getattr(guard.sloc, "origin", None)) for guard in denying), None)

    def _symbols(self, number: Number) -> set[Any]:
        return set() if type(number) is int else self.undecided.keys() & self.unknowns.symbols_of(number)

    def _may_be(self, symbol: Any) -> bool:
        if self.env.var_to_range[symbol].lower > 1:
            self.undecided.pop(symbol, None)
            return False
        return True

    def _unless_one(self, symbols: Iterable[Any], function: Any, a: Number, b: Number) -> bool | None:
        """The comparison with higher lower bounds, which stay only if they decide it."""
        before = self.unknowns.mark()
        for symbol in symbols:
            self.unknowns.exceed(symbol, 2)
        known = self.unknowns.known(function, a, b)
        if known is None:
            self.unknowns.put_back(before)
        return known

    def _overlook(self, function: Any, a: Number, b: Number) -> bool | None:
        """The comparison with all that is more than one in this call as more than one."""
        before = self.unknowns.mark()
        raised = [self.unknowns.rise(number) for number in (a, b) if type(number) is Polynomial]
        if not any(raised):
            return None
        known = self.unknowns.known(function, *map(self.unknowns.indicators.settled, (a, b)))
        self.unknowns.put_back(before)
        if known is not None and self._overlooked is not None:
            self._overlooked.update(*raised)
        return known

    def _exclude(self, symbols: Iterable[Any]) -> None:
        from torch.utils._sympy.value_ranges import ValueRanges  # heavy

        if self.env.frozen:  # the guards are made: who asks now is content with what holds for this call
            return
        for symbol in symbols:
            self.places[symbol] = self.env.origin()
            self.env.var_to_range[symbol] = ValueRanges(2, self.env.var_to_range[symbol].upper)
            self.undecided.pop(symbol, None)
        self.env._update_version_counter()


def _is_about_product(a: Number, b: Number) -> bool:
    """Whether a product of several numbers, as `n * m` or `n * (k + 1)`, is compared with one."""
    difference = polynomial.subtract(a, b)
    if type(difference) is int or abs(difference.terms.get((), 0)) != 1:
        return False
    first, *others = (frozenset(monomial) for monomial in difference.terms if monomial)
    return bool(first.intersection(*others)) if others else max(map(len, difference.terms)) > 1
