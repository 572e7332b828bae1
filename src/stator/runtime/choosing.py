"""Branches on data that only choose between numbers: the graph chooses, and the program goes on behind them."""

from __future__ import annotations

from typing import Any

from stator._frames import UNBOUND
from stator.code.choosing import Choice, Side, choice
from stator.code.operators import BINARY
from stator.frame import Frame
from stator.shapes.calculations import FLOAT, Kind, choose
from stator.shapes.floats import TracedFloat, depends_on_data
from stator.shapes.scalar import TracedBool, TracedInt, evaluated
from stator.tensors import values
from stator.tensors.traced import TracedTensor
from stator.world.lazy import forced

FLOATS = frozenset({float, TracedFloat})
INTS = frozenset({int, TracedInt})
NUMBERS = FLOATS | INTS | {bool}
Outcome = tuple[list[Any], dict[int, Any]]  # values that a side pushes, and those that it stores, by slot


class Other(Exception):
    """The branch is one like any other."""


def chosen(host: Any, f: Frame, value: Any) -> int | None:
    """Where the program goes on if both sides of the branch are known as numbers; the value is the condition."""
    if host.recorder.start_symbols is None or host.recorder.sub is not None:
        return None
    from_data = type(value) is TracedTensor or type(value) is TracedBool or depends_on_data(value)
    found = choice(f.info, f.lasti) if from_data else None
    if found is None:
        return None
    try:
        pairs = merged(host, f, found)
    except Other:
        return None
    condition = condition_of(host, value)
    if condition is None:
        return None
    stack, stored = [], {}
    for place, (yes, no, kind) in pairs.items():
        result = yes if kind is None else evaluated(choose, (condition, yes, no), kind)
        if place < 0:
            stack.append(result)
        else:
            stored[place] = result
    f.stack[-1:] = stack
    for slot, result in stored.items():
        f.locals[slot] = result
    return found.following


def condition_of(host: Any, value: Any) -> TracedBool | None:
    """The condition, if only data tells it."""
    if type(value) is TracedTensor:
        if any(type(size) is TracedInt or size != 1 for size in value._meta.size) or host.recorder.follow() is None:
            return None
        value = values.bool_of(host.recorder, value)
    elif type(value) is not TracedBool and depends_on_data(value):
        value = value != 0
    return value if type(value) is TracedBool else None


def merged(host: Any, f: Frame, found: Choice) -> dict[int, tuple[Any, Any, Kind | None]]:
    """For each value that the sides leave (stack: negative places, then slots): both, and what they are."""
    (first, stores), (second, others) = outcome(host, f, found.yes), outcome(host, f, found.no)
    if len(first) != len(second):
        raise Other
    pairs = {i - len(first): pair for i, pair in enumerate(zip(first, second, strict=True))}
    for slot in {**stores, **others}:
        before = forced(host, f.locals[slot])
        if before is not UNBOUND and type(before) not in NUMBERS:
            raise Other  # what it was may end here
        pairs[slot] = stores.get(slot, before), others.get(slot, before)
    return {place: (yes, no, kind_of(yes, no)) for place, (yes, no) in pairs.items()}


def outcome(host: Any, f: Frame, side: Side) -> Outcome:
    """What one side comes to; nothing of the frame is changed."""
    stack: list[Any] = []
    stored: dict[int, Any] = {}
    for name, arg in side:
        if name == "LOAD_CONST":
            stack.append(number(arg))
        elif name == "LOAD_FAST":
            stack.append(number(stored[arg] if arg in stored else forced(host, f.locals[arg])))
        elif name == "STORE_FAST" and stack:
            stored[arg] = stack.pop()
        elif name == "BINARY_OP" and len(stack) > 1:
            stack[-2:] = [number(host.operate(f, BINARY[arg], *stack[-2:]))]
        elif name != "NOP":
            raise Other
    return stack, stored


def number(value: Any) -> Any:
    if type(value) not in NUMBERS or (type(value) is TracedFloat and value.mixed):
        raise Other
    return value


def kind_of(yes: Any, no: Any) -> Kind | None:
    """What a choice between two numbers gives; None: they are the same."""
    if yes is no and yes is not UNBOUND:
        return None
    kinds = {type(yes), type(no)}
    if kinds <= FLOATS:
        return FLOAT
    if not kinds <= INTS:
        raise Other
    return Kind(int, min(yes, no), max(yes, no)) if kinds == {int} else Kind(int)
