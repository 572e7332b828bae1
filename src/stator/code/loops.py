"""Which instructions a frame may come to again."""

from __future__ import annotations

from collections.abc import Iterator

from stator.code.decode import CodeInfo
from stator.code.flow311 import ASSIGNING, BRANCHES, LOOP, STORING, UNPACKING, goes_back


def is_in_loop(info: CodeInfo, unit: int) -> bool:
    """Whether a jump backwards leads from behind an instruction to one before it."""
    return any(start <= unit <= end for start, end in _loops(info))


def passes_loop(info: CodeInfo, unit: int, target: int) -> bool:
    """Whether a jump from one instruction to another leaves out a whole loop, as the first test of a `while` does."""
    return any(unit < start and end < target for start, end in _loops(info))


def tests_one_loop(info: CodeInfo, first: int, later: int) -> bool:
    """Whether a branch is a test of a loop that ends it, or goes round, and an earlier one the same test before it."""
    if first == later:
        return True
    if info.names[first] not in BRANCHES or info.names[later] not in BRANCHES:
        return False
    beyond, target = int(info.ops[first][1]), int(info.ops[later][1])
    return any(
        (start <= first <= later or first < start <= end < beyond) and not start < target <= end
        for start, end in _loops(info)
        if start <= later <= end
    )


def loop_variables(info: CodeInfo, unit: int) -> Iterator[int]:
    """Slots of the variables that the `for` loops around an instruction give their items to."""
    for start, end in _loops(info):
        if start <= unit <= end and info.names[start] == LOOP:
            at, count = info.ops[start][2], 1
            if info.names[at] == UNPACKING:
                _, count, at = info.ops[at]
            while count and info.names[at] == STORING:
                yield info.ops[at][1]
                count, at = count - 1, info.ops[at][2]


def innermost_for(info: CodeInfo, unit: int) -> int | None:
    """Where the innermost `for` loop around an instruction asks for its next item."""
    around = [start for start, end in _loops(info) if start <= unit <= end and info.names[start] == LOOP]
    return max(around, default=None)


def carried_round(info: CodeInfo, begin: int, unit: int) -> set[int]:
    """Slots of the variables that only loops around an instruction have assigned to since the frame was at `begin`."""
    found: set[int] = set()
    for start, end in _loops(info):
        if start <= unit <= end:
            before = _assigned(info, begin, start)
            found.update(slot for slot in _assigned(info, start, end) if slot not in before)
    return found


def _assigned(info: CodeInfo, start: int, end: int) -> set[int]:
    return {info.ops[at][1] for at in range(start, end) if info.names[at] in ASSIGNING}


def _loops(info: CodeInfo) -> Iterator[tuple[int, int]]:
    """The first and last instruction of each loop."""
    return ((info.ops[at][1], at) for at, name in enumerate(info.names) if goes_back(name))
