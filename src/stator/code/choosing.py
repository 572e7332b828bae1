"""Branches that only choose between numbers: `1.0 if ok else 0.0`, `if ok: count += 1`."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from stator.code.decode import CodeInfo
from stator.code.operators import BINARY

JUMPS = {
    "POP_JUMP_FORWARD_IF_FALSE": False,
    "POP_JUMP_FORWARD_IF_TRUE": True,
}
CALCULATIONS = frozenset(
    {operator.add, operator.sub, operator.mul, operator.iadd, operator.isub, operator.imul}  # raise for no number
)
MOST = 12  # instructions of one side
Side = tuple[tuple[str, Any], ...]  # names and arguments of instructions


class Choice(NamedTuple):
    """What is done if the condition holds, and if it does not, before both go on at the same instruction."""

    yes: Side
    no: Side
    following: int


def choice(info: CodeInfo, unit: int) -> Choice | None:
    """The sides of a branch that do nothing but move numbers and calculate with them; None for other branches."""
    jumps_if = JUMPS.get(info.names[unit])
    if jumps_if is None:
        return None
    _, target, fall = info.ops[unit]
    first, end = _straight(info, fall, target)
    if first is None:
        return None
    if info.names[end] == "JUMP_FORWARD" and end != target:
        join = info.ops[end][1]
        other, reached = _straight(info, target, join)
        if other is None or reached != join:
            return None
    elif end == target:
        other, join = (), target
    else:  # both return what they have chosen
        other, join = _straight(info, target, len(info.names))
        if other is None or info.names[end] != "RETURN_VALUE" or info.names[join] != "RETURN_VALUE":
            return None
    return Choice(other, first, join) if jumps_if else Choice(first, other, join)


def _straight(info: CodeInfo, unit: int, stop: int) -> tuple[Side | None, int]:
    """The instructions from a unit to another one, or to where there is one that cannot be part of a side."""
    found: list[tuple[str, Any]] = []
    while unit != stop and unit < len(info.names):
        name, (_, arg, following) = info.names[unit], info.ops[unit]
        if name not in SIMPLE or (name == "BINARY_OP" and BINARY[arg] not in CALCULATIONS):
            break
        found.append((name, arg))
        unit = following
    return (None if len(found) > MOST or unit >= len(info.names) else tuple(found)), unit


SIMPLE = frozenset({"LOAD_CONST", "LOAD_FAST", "STORE_FAST", "BINARY_OP", "NOP"})
