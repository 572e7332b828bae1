"""Branches that make tensors longer: `if pad > 0: x = F.pad(x, (0, pad))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stator.code.cuts import BranchReader, NotRead, Steps, branch_at, read_behind
from stator.code.decode import CodeInfo

# How many values are taken for the one that is left.
_TAKEN: dict[str, Callable[[int], int]] = {
    "constant": lambda arg: 0,
    "variable": lambda arg: 0,
    "global": lambda arg: 0,
    "attribute": lambda arg: 1,
    "method": lambda arg: 1,
    "item": lambda arg: 2,
    "operator": lambda arg: 2,
    "tuple": lambda arg: arg,
    "list": lambda arg: arg,
    "call": lambda arg: arg + 1,
}
_NAMED = ("global", "attribute", "method")
_LAST = frozenset({"pad", "cat", "concat"})  # names of functions whose results are kept
_MADE = frozenset(
    {"zeros", "new_zeros", "ones", "new_ones", "full", "new_full"}
)  # for variables that nothing reads behind the branch
_OTHERS = _MADE | {"size"}
_MOST = 128  # terms


class Pad(NamedTuple):
    """What follows a comparison: others, one of which is enough, and statements that give variables new values."""

    others: list[tuple[str, Steps]]  # the comparison, and what leads to its operands
    results: dict[int, int]  # the unit that makes a value, and the variable that gets it
    fresh: frozenset[int]  # variables that nothing else reads


def pad_after(info: CodeInfo, unit: int) -> Pad | None:
    """What the branch at a unit, or on the comparison there, is if it does nothing but make tensors longer."""
    try:
        return _read(branch_at(info, unit))
    except NotRead:
        return None


def _read(reader: BranchReader) -> Pad:
    others, target = reader.conditions()
    results, amounts = {}, set()
    while not reader.is_at(target):
        unit, variable = _statement(reader)
        if unit is None:
            amounts.add(variable)
        else:
            results[unit] = variable
    read = read_behind(reader.info, target)
    if not results or not amounts.isdisjoint(read | set(results.values())):
        raise NotRead
    return Pad(others, results, frozenset(set(results.values()) - read))


def _statement(reader: BranchReader) -> tuple[int | None, int]:
    """One assignment: the unit that makes the value (None: a tuple or list of amounts), and the variable."""
    names: list[str | None] = []  # of the values on the stack
    last: tuple[int, str, str | None] | None = None
    for _ in range(_MOST):
        term, arg = reader.next()
        if term == "store" and len(names) == 1 and last is not None:
            unit, kind, name = last
            if kind in ("tuple", "list"):
                return None, arg
            if kind == "operator" or (kind == "call" and name in _LAST | _MADE):
                return unit, arg
        if term == "names":
            continue
        if term not in _TAKEN or _TAKEN[term](arg) > len(names):
            break
        taken = names[len(names) - _TAKEN[term](arg) :]
        if term == "call" and taken[0] not in _LAST | _OTHERS:
            break
        del names[len(names) - len(taken) :]
        names.append(arg if term in _NAMED else None)
        last = reader.last, term, taken[0] if taken else None
    raise NotRead
