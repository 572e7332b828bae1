"""Which variables a frame may still read: the others need not be carried over a break."""

from __future__ import annotations

from types import CodeType

from stator.code.decode import CodeInfo
from stator.code.flow311 import NOT_FOLLOWED, READING, STORING, jumps

# Names by which code looks at the variables of a frame, its own or that of a caller.
LOOKING = frozenset(
    {"locals", "vars", "dir", "eval", "exec", "f_locals", "_getframe", "currentframe", "tb_frame"}
    | {"settrace", "setprofile", "set_trace", "breakpoint"}
)


def looks_at_variables(code: CodeType) -> bool:
    """Whether code may ask for its variables, or those of its callers, by name."""
    return not LOOKING.isdisjoint(code.co_names)


def looks_at_callers(code: CodeType) -> bool:
    """Whether code looks at variables of a frame that it has got."""
    return "f_locals" in all_names(code) or "f_locals" in code.co_consts


def all_names(code: CodeType) -> set[str]:
    """The names of globals and attributes that code uses, with those of functions within it."""
    names = {*code.co_names, *code.co_freevars}
    for const in code.co_consts:
        if type(const) is CodeType:
            names |= all_names(const)
    return names


def needed_slots(info: CodeInfo, unit: int) -> int:
    """The variables that an instruction or what may come after it reads, as bits."""
    if info.needed is None:
        info.needed = _needed(info)
    return info.needed[unit]


def _needed(info: CodeInfo) -> list[int]:
    """For each instruction, from the last to the first, until nothing changes any more."""
    count = len(info.names)
    handlers: list[int | None] = [None] * count
    for row in info.protected:
        handlers[row.start : row.end] = [row.target] * (row.end - row.start)
    found = [0] * (count + 1)
    changed = True
    while changed:
        changed = False
        for unit in range(count - 1, -1, -1):
            now = _before(info, unit, found)
            if (target := handlers[unit]) is not None:
                now |= found[target]
            if now != found[unit]:
                found[unit] = now
                changed = True
    return found


def _before(info: CodeInfo, unit: int, found: list[int]) -> int:
    name, (_, arg, following) = info.names[unit], info.ops[unit]
    after = 0 if name in NOT_FOLLOWED else found[following]
    if jumps(name):
        after |= found[arg]
    if name == STORING:
        return after & ~(1 << arg)
    return after | 1 << arg if name in READING else after
