"""Suspended generators and coroutines that leave the capture: another one, suspended at the same place."""

from __future__ import annotations

import types
from functools import lru_cache
from typing import Any

from stator import _frames
from stator._frames import UNBOUND
from stator.code import resume
from stator.code.resume import Layout

from .atoms import is_module_namespace
from .plan import CannotRebuild, Const, Heap, Part, Plan, Splice, piece, tuple_of
from .recipes_functions import globals_of


@lru_cache(256)
def revived_code(code: types.CodeType, file: str, unit: int, layout: Layout) -> types.CodeType:
    """By file too: equal code objects may stand in different ones."""
    return resume.revived(code, unit, layout)


def revive(function: types.FunctionType, names: tuple[str, str], suspended: bool, state: tuple[Any, ...]) -> Any:
    """A generator with this state; the function's code came from `revived_code`."""
    made: Any = function(state)
    made.__name__, made.__qualname__ = names
    if suspended:
        made.send(None)
    return made


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


def _globals(function: Any, heap: Heap) -> object:
    """An outside function may be one of several with the same code, each with globals of its own."""
    if is_module_namespace(function.__globals__) or not heap.resolved(function):
        return globals_of(function, heap)
    return Splice(Part(function), ".__globals__")


def build_generator(obj: Any, solid: type, heap: Heap) -> Plan:
    names = (obj.__name__, obj.__qualname__)
    try:
        found = _frames.generator_state(obj)
    except ValueError as error:
        raise CannotRebuild(obj, "it is running") from error
    if found is None:
        return Plan(piece("{0}({1}, {2})", Const(ended), names, solid is types.CoroutineType))
    function, unit, values, stack, handled = found
    code = function.__code__
    first_free = len(values) - len(code.co_freevars)
    closure = function.__closure__ or ()
    if not heap.inside(function) and not all(heap.resolved(cell) for cell in closure):
        raise CannotRebuild(obj, "it shares variables with functions from outside")
    slots = resume.bound_slots(values, UNBOUND, first_free)
    handles = handled is not None
    layout = Layout(slots, tuple(value is not UNBOUND for value in stack), handles)
    state = [values[slot] for slot in slots] + [handled] * handles + [v for v in reversed(stack) if v is not UNBOUND]
    made = Const(revived_code(code, code.co_filename, unit, layout))
    source: list[object] = [made, _globals(function, heap), function.__name__, None]
    if closure:
        source.append(closure)
    inner = tuple_of(source)
    return Plan(
        piece("{0}({1}(*{2}), {3}, {4}, {5})", Const(revive), Const(types.FunctionType), inner, names, unit >= 0,
              tuple_of(state)),
        inline=False,
    )  # fmt: skip
