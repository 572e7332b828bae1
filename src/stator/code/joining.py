"""Branches whose sides meet again after moving numbers about: `1.0 if c else 0.0`, `if c: n += 1`."""

from __future__ import annotations

from stator.code.decode import CodeInfo
from stator.code.flow311 import BRANCHES, CALLS, MOVES, PLAIN_JUMPS, READING, RETURN, STORING

_MOST = 48  # instructions of a side


def join_of(info: CodeInfo, unit: int, calls: bool = False) -> int | None:
    """Where the sides of a branch meet; None if something else than moves and arithmetic comes before that.

    With `calls` they may also read names and call what they read.
    """
    if (unit, calls) not in info.joins:
        info.joins[unit, calls] = _join(info, unit, calls) if info.names[unit] in BRANCHES else None
    return info.joins[unit, calls]


def left_behind(info: CodeInfo, unit: int, join: int) -> set[int]:
    """Variables that nothing reads but the sides of a branch themselves, one of which it may give a value."""
    inside, pending = set(), [int(info.ops[unit][1]), info.ops[unit][2]]
    while pending:
        place = pending.pop()
        if place == join or place in inside:
            continue
        inside.add(place)
        name = info.names[place]
        if name in PLAIN_JUMPS or name in BRANCHES:
            pending.append(int(info.ops[place][1]))
        if name not in PLAIN_JUMPS and name != RETURN:
            pending.append(info.ops[place][2])
    stored = {info.ops[place][1] for place in inside if info.names[place] == STORING}
    read = {info.ops[place][1] for place, name in enumerate(info.names) if name in READING and place not in inside}
    return stored - read


def _join(info: CodeInfo, unit: int, calls: bool) -> int | None:
    _, target, following = info.ops[unit]
    first, second = _trail(info, target, unit, calls), _trail(info, following, unit, calls)
    join = next((place for place in first if place in second), None)
    if join is None and info.names[first[-1]] == info.names[second[-1]] == RETURN:
        return first[-1]  # both return
    return join


def _trail(info: CodeInfo, unit: int, branch: int, calls: bool) -> list[int]:
    """The instructions from here on that every way goes through, up to the first that does something else."""
    found: list[int] = []
    while len(found) < (2 * _MOST if calls else _MOST) and unit not in found:
        found.append(unit)
        name = info.names[unit]
        _, arg, following = info.ops[unit]
        if name in PLAIN_JUMPS:
            unit = arg
        elif name in MOVES or (calls and name in CALLS):
            unit = following
        elif name in BRANCHES and unit != branch and unit > branch:
            join = join_of(info, unit, calls)
            if join is None:
                break
            unit = join
        else:
            break
    return found
