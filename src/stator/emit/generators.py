"""Suspended generators and coroutines that leave the capture: another one, suspended at the same place."""

from __future__ import annotations

import types
from typing import Any

from stator import _frames
from stator._frames import UNBOUND

from .plan import SELF, CannotRebuild, Const, Heap, Part, Plan, Splice, piece, tuple_of

OPTIMIZED = 1  # a flag of code objects: locals live in slots


def over(*ignored: Any) -> Any:
    """The code of generators that have ended."""
    yield


async def over_coroutine(*ignored: Any) -> None:
    """The code of coroutines that have ended."""


def ended(names: tuple[str, str], is_coroutine: bool) -> Any:
    made: Any = over_coroutine() if is_coroutine else over()
    made.close()
    made.__name__, made.__qualname__ = names
    return made


def state_of(state: tuple[Any, ...], outside: bool) -> list[object]:
    """Function, place, variables, stack and exception of a suspended frame, as holes of a piece.

    A function from outside brings the variables that it shares with others.
    """
    function, unit, values, stack, handled, *_ = state
    first_free = len(values) - len(function.__code__.co_freevars)
    variables = [
        Splice(Part(function), f".__closure__[{slot - first_free}]") if outside and slot >= first_free else part(value)
        for slot, value in enumerate(values)
    ]
    return [function, unit, tuple_of(variables), tuple_of(map(part, stack)), handled]


def part(value: Any) -> object:
    return Const(value) if value is UNBOUND else value


def build_generator(obj: Any, solid: type, heap: Heap) -> Plan:
    names = (obj.__name__, obj.__qualname__)
    try:
        state = _frames.generator_state(obj)
    except ValueError as error:
        raise CannotRebuild(obj, "it is running") from error
    if state is None:
        return Plan(piece("{0}({1}, {2})", Const(ended), names, solid is types.CoroutineType))
    function, _, values, *_ = state
    if not function.__code__.co_flags & OPTIMIZED:
        raise CannotRebuild(obj, "its variables are in a namespace")
    holes = state_of(state, not heap.inside(function))
    empty = tuple_of([Const(UNBOUND)] * len(values))
    make = "{0}({1}, {2}, {3}, {4}, {5}, {6}, {7})"
    return Plan(
        piece(make, Const(_frames.make_generator), function, *names, *holes[1:]),
        bare=piece(make, Const(_frames.make_generator), function, *names, -1, empty, (), None),
        rest=[piece("{0}({1}, {2}, {3}, {4}, {5}, {6})", Const(_frames.put_generator), SELF, *holes)],
        inline=False,
    )
