"""Comparisons of numbers: known in any case, answered before, told by data, or asked of torch and guarded."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stator.shapes import polynomial
from stator.shapes.arithmetic import Arithmetic, number_of
from stator.shapes.ones import Ones
from stator.shapes.polynomial import Polynomial
from stator.shapes.unbacked import RELATIONS
from stator.shapes.unknowns import QUESTIONS


class NotKnown(Exception):
    """A question about a number whose value this call does not tell."""


class Questions(Arithmetic):
    """How numbers compare."""

    def __init__(self, env: Any, unbacked: bool) -> None:
        super().__init__(env, unbacked)
        self.ones = Ones(env, self.unknowns)
        self._answers: dict[Any, bool] = {}  # to questions that made guards
        self._known_only = False

    def compare(self, function: Any, a: Any, b: Any) -> Any:
        """Whether a comparison of numbers holds; guarded unless it does in any case, or only data tells."""
        left, right = number_of(a), number_of(b)
        known = self.unknowns.known(function, left, right)
        if known is not None:
            return known
        difference = self.unknowns.difference(left, right)
        if self.unknowns.indicators.subjects and (told := self._told(difference)) is not difference:
            return self.compare(function, told, 0)
        if self.unbacked and not self._known_only and self.unknowns.hint(difference) is None:
            return self.truth(RELATIONS[function](*self.unknowns.both(difference)))
        return self._ask(function, difference)

    def _told(self, difference: Any) -> Any:
        """A number about which it matters whether others are one: that is asked of those, and it is simpler then."""
        told = self.unknowns.indicators
        for indicator in told.among((difference,)):
            one = self.compare(operator.eq, self.unknowns.all[told.subjects[indicator]].number, 1)
            difference = (told.if_one if one else told.if_several)(difference, indicator)
        return told.settled(difference)

    def follows(self, function: Any, a: Any, b: Any) -> None:
        """A comparison that is known to hold by what is guarded already."""
        asked, opposite = QUESTIONS[function]
        difference = self.unknowns.difference(number_of(a), number_of(b))
        if type(difference) is Polynomial:
            self.unknowns.holds(asked, difference, not opposite)

    def is_answered(self, function: Any, a: Any, b: Any) -> bool:
        """Whether a comparison holds or not is known, or guarded, or for data to tell: nothing would be asked."""
        left, right = number_of(a), number_of(b)
        if self.unknowns.known(function, left, right) is not None:
            return True
        difference = self.unknowns.difference(left, right)
        asked = QUESTIONS[function][0]
        known = self._answers.get((asked, difference)) is not None or self._implied(asked, difference) is not None
        return known or self.unknowns.hint(difference) is None

    def settled(self, function: Any, a: Any, b: Any) -> bool | None:
        """Whether a comparison holds in any case or is guarded to, or not; None: it has not been asked."""
        left, right = number_of(a), number_of(b)
        known = self.unknowns.known(function, left, right)
        if known is not None:
            return known
        difference = self.unknowns.difference(left, right)
        asked, opposite = QUESTIONS[function]
        answer = self._answers.get((asked, difference))
        if answer is None:
            answer = self._implied(asked, difference)
        return None if answer is None else answer is not opposite

    def _ask(self, function: Any, difference: Polynomial) -> bool:
        """Lets the env decide how a number compares with zero."""
        asked, opposite = QUESTIONS[function]
        answer = self._answers.get((asked, difference))
        if answer is None:
            answer = self._implied(asked, difference)
        if answer is None:
            if self._known_only and self.unknowns.hint(difference) is None:
                if asked is operator.eq and _is_special(difference):
                    return opposite
                raise NotKnown(str(difference))
            answer = self.ones.decides(asked, difference, 0)
        if answer is None:
            relation = RELATIONS[asked](*self.unknowns.both(difference), evaluate=False)
            answer = bool(self.condition(relation))
            self._note(asked, difference, answer)
        return answer is not opposite

    def _implied(self, asked: Any, difference: Polynomial) -> bool | None:
        """What other answers about the same number say."""
        for other, found, says in _IMPLIED[asked]:
            if self._answers.get((other, difference)) is found:
                return says
        if asked is not operator.eq and self._answers.get((operator.eq, difference)) is False:
            low, high = self.unknowns.bounds(difference)
            return False if low == 0 else True if high == 0 else None
        return None

    def _note(self, asked: Any, difference: Polynomial, answer: bool) -> None:
        """Remembers how a number compares with zero, and what that says about its opposite."""
        self._answers[asked, difference] = answer
        turned = polynomial.multiply(difference, -1)
        if asked is operator.eq:
            self._answers[asked, turned] = answer
        else:
            self._answers[_TURNED[asked], turned] = not answer
        self.unknowns.holds(asked, difference, answer)
        if asked is operator.eq and answer:
            self.unknowns.equal(difference)

    @contextmanager
    def known_only(self) -> Iterator[None]:
        """A context in which a question about a value that this call does not tell raises `NotKnown`.

        Except whether it is 0 or 1: no, as torch has it, which only matters to strides that are arbitrary then.
        """
        before, self._known_only = self._known_only, True
        try:
            yield
        finally:
            self._known_only = before


def _is_special(difference: Polynomial) -> bool:
    """Whether a difference is zero only where a product of unknowns is 0 or 1, or a sum of them, or one is negative."""
    factors = [c for monomial, c in difference.terms.items() if monomial]
    least, constant = min(factors, key=abs, default=0), difference.terms.get((), 0)
    if least < 0:
        least, constant = -least, -constant
    alike = len({c > 0 for c in factors}) == 1
    return alike and (constant >= 0 or constant in (-1, -least))


_TURNED: dict[Any, Any] = {operator.lt: operator.le, operator.le: operator.lt}  # x < 0 unless -x <= 0


# Question -> another one, its answer, and what follows from it.
_IMPLIED: dict[Any, list[tuple[Any, bool, bool]]] = {
    operator.eq: [(operator.lt, True, False), (operator.le, False, False)],
    operator.lt: [(operator.le, False, False), (operator.eq, True, False)],
    operator.le: [(operator.lt, True, True), (operator.eq, True, True)],
}
