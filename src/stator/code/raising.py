"""Branches of which one side does nothing but raise: `assert`, and `if …: raise`."""

from __future__ import annotations

from stator.code.decode import CodeInfo, units
from stator.code.flow311 import BRANCHES, ENDS, GLOBAL, RAISE, goes_back, jumps

ANSWERS = frozenset({"StopIteration", "StopAsyncIteration"})  # exceptions that end a loop: no errors


def expected(info: CodeInfo, unit: int) -> bool | None:
    """What the condition must be for the program to go on, if the other side of the branch only raises."""
    jumps_if = BRANCHES.get(info.names[unit])
    if jumps_if is None or goes_back(info.names[unit]):
        return None
    _, target, following = info.ops[unit]
    jump, fall = raises(info, target), raises(info, following)
    if jump == fall:
        return None
    return not jumps_if if jump else jumps_if


def raises(info: CodeInfo, unit: int) -> bool:
    """Whether the instructions from here lead to a `raise` of an error, without a jump."""
    while unit < len(info.names):
        name = info.names[unit]
        if name == RAISE:
            return True
        if name in ENDS or jumps(name) or (name == GLOBAL and global_name(info, unit) in ANSWERS):
            return False
        unit = info.ops[unit][2]
    return False


def global_name(info: CodeInfo, unit: int) -> str:
    """The name that a LOAD_GLOBAL looks up."""
    code = info.code
    return code.co_names[units(code)[unit][1] >> 1]
