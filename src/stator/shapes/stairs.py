"""Ints that are floats rounded which only Python can calculate: `int(np.ceil(np.log(n)))` as steps that C counts.

A float of one int alone takes the same int for many in a row. Python calculates all of them up to a limit, which is
guarded, and C adds up the steps below the int of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stator._entry import RELATION_OPS
from stator.filters import Listening
from stator.guards.relation import WHOLE, Operand, Relation
from stator.shapes.float_conditions import Condition, NoCondition, int_operand
from stator.shapes.roundings import MOST_NESTED, nested
from stator.shapes.scalar import TracedInt

FIRST_LIMIT, LAST_LIMIT = 1 << 10, 1 << 14  # ints that are tried
MOST_STEPS = 32


class Stairs:
    """A function of an int: the first number and what is added from which int on."""

    __name__ = "stairs"

    def __init__(self, first: int, steps: list[tuple[int, int]]) -> None:
        self.first = first
        self.steps = steps

    def __call__(self, key: int) -> int:
        return self.first + sum(height for start, height in self.steps if key >= start)

    def code(self) -> Iterator[int]:
        """The same for C."""
        ops = RELATION_OPS
        yield from (ops["CONST"], self.first)
        for start, height in self.steps:
            yield from (ops["LOAD"], 0, ops["CONST"], start, ops["GE"], 0, ops["CONST"], height, ops["MUL"], 0)
            yield from (ops["ADD"], 0)


def counted(function: Any, number: Any, positive: bool = False) -> Any:
    """The symbolic int that a function makes of a float, which may have to be positive; None if it is no such one."""
    key = _only_int(number)
    place = None if key is None else key.symbols.unknowns.hint(key.number)
    if key is None or place is None or not 0 <= place <= LAST_LIMIT // 2 or not number.floats.has_ints:
        return None
    try:
        operand = int_operand(key)
    except NoCondition:
        return None
    if nested(operand) >= MOST_NESTED or _is_known_to_c(number):
        return None
    low, made = _range(function, number, place, max(FIRST_LIMIT, 2 * place), positive)
    steps = [(low + i, made[i] - made[i - 1]) for i in range(1, len(made)) if made[i] != made[i - 1]]
    if len(made) < 2 or len(steps) > MOST_STEPS or not (key >= low and key <= low + len(made) - 1):
        return None
    stairs = Stairs(made[0], steps)
    relation = Relation((operand,), tuple(stairs.code()), "stairs({0})")
    rounded = type(number)(number.floats, stairs(place), stairs, (key,))
    return number.floats.rounded(Operand(operand.path, WHOLE, inner=relation), rounded)


def _is_known_to_c(number: Any) -> bool:
    try:
        Condition().calculation(number)
    except NoCondition:
        return False
    return True


def _leaves(number: Any) -> Iterator[Any]:
    """What a float is calculated of in the end."""
    for arg in number.args:
        if type(arg) is type(number) and arg.function is not None:
            yield from _leaves(arg)
        else:
            yield arg


def _only_int(number: Any) -> Any:
    """The one symbol among what a float is calculated of."""
    if number.function is None or number.from_data:
        return None
    symbols = [leaf for leaf in _leaves(number) if type(leaf) not in (int, float)]
    if not symbols or any(type(leaf) is not TracedInt or leaf.number != symbols[0].number for leaf in symbols):
        return None
    return symbols[0]


def _at(number: Any, key: int) -> Any:
    """A float of another int."""
    if type(number) is TracedInt:
        return key
    return number.function(*(_at(arg, key) for arg in number.args)) if hasattr(number, "function") else number


def _range(function: Any, number: Any, place: int, limit: int, positive: bool) -> tuple[int, list[int]]:
    """The least int around this one for which the float can be calculated, and all that a function makes from there."""

    def run(keys: Iterable[int]) -> Iterator[int]:
        for key in keys:
            try:
                value = _at(number, key)
                made = function(value)
            except Exception:  # it has no such number
                return
            if warned or type(made) is not int or abs(made) > limit * limit or (positive and not value > 0):
                return
            yield made

    with Listening() as warned:
        below, above = list(run(range(place - 1, -1, -1))), list(run(range(place, limit + 1)))
    return place - len(below), below[::-1] + above
