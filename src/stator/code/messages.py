"""Texts that are formatted for a call which may not look at them: `_assert(n > 2, f"{n} is too small")`."""

from __future__ import annotations

from functools import lru_cache

from stator.code.decode import units_of

# How many values an instruction between the parts of a text takes, for one that it leaves.
_TAKEN = {
    "LOAD_CONST": 0,
    "LOAD_FAST": 0,
    "LOAD_DEREF": 0,
    "LOAD_ATTR": 1,
    "BINARY_SUBSCR": 2,
    "BINARY_OP": 2,
    "FORMAT_VALUE": 1,
}


@lru_cache(1024)
def message_call(raw: bytes, unit: int) -> int | None:
    """If the text that is formatted at a unit of this code becomes the last of two arguments of a call and nothing
    else: how many values, parts of the same text, lie between it and the first argument; else None."""
    decoded = units_of(raw)
    above, below = 0, 0  # values on top of the text, parts of it further down
    following = decoded[unit][2]
    for _ in range(len(decoded)):
        name, arg, after = decoded[following]
        if name == "BUILD_STRING":
            if arg <= above:
                above -= arg - 1
            else:
                below, above = below + arg - above - 1, 0
        elif name == "PRECALL":
            return below if above == 0 and arg == 2 and decoded[after][:2] == ("CALL", 2) else None
        else:
            taken = _TAKEN.get(name)
            if taken is None or taken > above or (name == "FORMAT_VALUE" and arg & 4):
                return None
            above += 1 - taken
        following = after
    return None
