"""Branches whose sides meet again after moving numbers about: `1.0 if c else 0.0`, `if c: n += 1`."""

from __future__ import annotations

from stator.code.decode import CodeInfo

BRANCHES = {
    "POP_JUMP_FORWARD_IF_FALSE": False,
    "POP_JUMP_BACKWARD_IF_FALSE": False,
    "POP_JUMP_FORWARD_IF_TRUE": True,
    "POP_JUMP_BACKWARD_IF_TRUE": True,
}  # what the condition is where they jump
JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD"})
MOVES = frozenset({
    "NOP", "LOAD_CONST", "LOAD_FAST", "STORE_FAST", "BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_POSITIVE",
    "COPY", "SWAP", "POP_TOP",
})  # fmt: skip
_MOST = 48  # instructions of a side


def join_of(info: CodeInfo, unit: int) -> int | None:
    """Where the sides of a branch meet; None if something else than moves and arithmetic comes before that."""
    if unit not in info.joins:
        info.joins[unit] = _join(info, unit) if info.names[unit] in BRANCHES else None
    return info.joins[unit]


def _join(info: CodeInfo, unit: int) -> int | None:
    _, target, following = info.ops[unit]
    first, second = _trail(info, target, unit), _trail(info, following, unit)
    join = next((place for place in first if place in second), None)
    if join is None and info.names[first[-1]] == info.names[second[-1]] == "RETURN_VALUE":
        return first[-1]  # both return
    return join


def _trail(info: CodeInfo, unit: int, branch: int) -> list[int]:
    """The instructions from here on that every way goes through, up to the first that does something else."""
    found: list[int] = []
    while len(found) < _MOST and unit not in found:
        found.append(unit)
        name = info.names[unit]
        _, arg, following = info.ops[unit]
        if name in JUMPS:
            unit = arg
        elif name in MOVES:
            unit = following
        elif name in BRANCHES and unit != branch and unit > branch:
            join = join_of(info, unit)
            if join is None:
                break
            unit = join
        else:
            break
    return found
