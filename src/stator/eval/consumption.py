"""What takes the value that an instruction is about to make, where the same expression says so."""

from __future__ import annotations

from typing import Any

from stator.code.decode import units
from stator.code.windows311 import WINDOWS
from stator.frame import UNBOUND, Frame

BUILDING = frozenset({"BUILD_TUPLE", "BUILD_LIST"})
SUBSCRIPTS = frozenset({"BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"})
STILL = frozenset({"NOP", "PRECALL", "KW_NAMES", "CACHE"})  # they leave the stack as it is
PASSED = BUILDING | SUBSCRIPTS | STILL | frozenset({
    "BINARY_OP", "BUILD_SLICE", "CALL", "LOAD_ATTR", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL",
    "LOAD_METHOD", "LOAD_NAME", "PUSH_NULL", "UNARY_NEGATIVE",
})  # fmt: skip


def taker(f: Frame, count: int) -> Any:
    """The container that a value made of `count` others is an index of, or the function that it is an argument of.

    It may be part of a tuple or list by then. UNBOUND where this cannot be seen.
    """
    rows, stack = units(f.code), f.stack
    unit, height = rows[f.lasti][2], len(stack) - count  # where the value will lie
    top = height + 1
    while rows[unit][0] in PASSED:
        name, arg, unit = rows[unit]
        taken = WINDOWS[name](arg) if name in WINDOWS else 0
        if top - taken > height:
            top += pushed(name, arg) - taken
        elif name in BUILDING:
            height, top = top - taken, top - taken + 1
        elif name in SUBSCRIPTS:
            return stack[height - 1] if top == height + 1 else UNBOUND
        else:
            return stack[top - taken + (stack[top - taken] is UNBOUND)] if name == "CALL" else UNBOUND
    return UNBOUND


def pushed(name: str, arg: int) -> int:
    """How many values an instruction that is passed leaves on the stack."""
    if name in STILL or name == "STORE_SUBSCR" or name == "DELETE_SUBSCR":
        return 0
    return 2 if name == "LOAD_METHOD" or (name == "LOAD_GLOBAL" and arg & 1) else 1
