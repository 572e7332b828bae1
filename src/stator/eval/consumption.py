"""What takes the value that an instruction is about to make, where the same expression says so."""

from __future__ import annotations

from typing import Any

from stator.code.decode import units
from stator.code.windows311 import BUILDING, CALLING, EXPRESSION, PUSHED, SUBSCRIPTS, WINDOWS
from stator.frame import UNBOUND, Frame


def taker(f: Frame, count: int) -> Any:
    """The container that a value made of `count` others is an index of, or the function that it is an argument of.

    It may be part of a tuple or list by then. UNBOUND where this cannot be seen.
    """
    rows, stack = units(f.code), f.stack
    unit, height = rows[f.lasti][2], len(stack) - count  # where the value will lie
    top = height + 1
    while rows[unit][0] in EXPRESSION:
        name, arg, unit = rows[unit]
        taken = WINDOWS[name](arg) if name in WINDOWS else 0
        if top - taken > height:
            top += (PUSHED[name](arg) if name in PUSHED else 1) - taken
        elif name in BUILDING:
            height, top = top - taken, top - taken + 1
        elif name in SUBSCRIPTS:
            return stack[height - 1] if top == height + 1 else UNBOUND
        else:
            return stack[top - taken + (stack[top - taken] is UNBOUND)] if name in CALLING else UNBOUND
    return UNBOUND
