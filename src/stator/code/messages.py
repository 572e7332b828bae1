"""Texts that are formatted for a call which may not look at them: `_assert(n > 2, f"{n} is too small")`."""

from __future__ import annotations

from stator.code.decode import CodeInfo
from stator.code.terms import Reader

# How many values are taken for one that is left, between the parts of a text.
_TAKEN = {
    "constant": 0,
    "variable": 0,
    "cell": 0,
    "attribute": 1,
    "item": 2,
    "operator": 2,
    "format": 1,
}


def message_call(info: CodeInfo, unit: int) -> int | None:
    """If the text that is formatted at a unit of this code becomes the last of two arguments of a call and nothing
    else: how many values, parts of the same text, lie between it and the first argument; else None."""
    above, below = 0, 0  # values on top of the text, parts of it further down
    reader = Reader(info, info.ops[unit][2])
    for _ in range(len(info.ops)):
        term, arg = reader.next()
        if term == "join":
            if arg <= above:
                above -= arg - 1
            else:
                below, above = below + arg - above - 1, 0
        elif term == "call":
            return below if above == 0 and arg == 2 else None
        else:
            taken = _TAKEN.get(term)
            if taken is None or taken > above:
                return None
            above += 1 - taken
    return None
