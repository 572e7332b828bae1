"""Branches that cut off what was added before: `if pad > 0 or more > 0: x = x[:, :n, :m].contiguous()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stator.code.decode import CodeInfo
from stator.code.terms import Reader
from stator.code.terms311 import Term

# How many values are taken for the one that is left; nothing of the program is called for plain numbers.
_TAKEN: dict[str, Callable[[int], int]] = {
    "constant": lambda arg: 0,
    "variable": lambda arg: 0,
    "item": lambda arg: 2,
    "operator": lambda arg: 2,
    "slice": lambda arg: arg,
    "tuple": lambda arg: arg,
}
_MOST = 64  # terms

Steps = list[Term]


class Cut(NamedTuple):
    """What follows a comparison: others, one of which is enough, and the variable that is indexed if one holds."""

    others: list[tuple[str, Steps]]  # the comparison, and what leads to its operands
    variable: int
    key: Steps  # what leads to the index
    copies: int | None  # the unit at which `contiguous()` is called, if it is


class _NoCut(Exception):
    pass


class _Reader(Reader):
    """Reads what is known to come."""

    def expect(self, term: str, arg: Any = None) -> Any:
        found, given = self.next()
        if found != term or (arg is not None and given != arg):
            raise _NoCut
        return given

    def values(self, end: str, count: int) -> tuple[Steps, Any]:
        """Terms that leave so many values for another one, and the argument of that."""
        steps: Steps = []
        depth = 0
        for _ in range(_MOST):
            term, arg = self.next()
            if term == end and depth == count:
                return steps, arg
            if term not in _TAKEN or _TAKEN[term](arg) > depth:
                raise _NoCut
            depth += 1 - _TAKEN[term](arg)
            steps.append((term, arg))
        raise _NoCut


def cut_after(info: CodeInfo, unit: int) -> Cut | None:
    """What the branch on the comparison at a unit is, if there is one and it does nothing but cut a variable."""
    try:
        return _read(_Reader(info, unit))
    except _NoCut:
        return None


def _read(reader: _Reader) -> Cut:
    others: list[tuple[str, Steps]] = []
    body = None
    reader.expect("comparison")
    for _ in range(_MOST):
        term, target = reader.next()
        if term == "unless":
            break
        if term != "if" or body not in (None, target):
            raise _NoCut
        body = target
        steps, comparison = reader.values("comparison", 2)
        others.append((comparison, steps))
    else:
        raise _NoCut
    if body is not None and not reader.is_at(body):
        raise _NoCut
    variable = reader.expect("variable")
    key, _ = reader.values("item", 1)
    copies = None
    term, arg = reader.next()
    if (term, arg) == ("method", "contiguous"):
        reader.expect("call", 0)
        copies = reader.last
        term, arg = reader.next()
    if (term, arg) != ("store", variable) or not reader.is_at(target):
        raise _NoCut
    return Cut(others, variable, key, copies)
