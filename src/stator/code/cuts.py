"""Branches that cut off what was added before: `if pad > 0 or more > 0: x = x[:, :n, :m].contiguous()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stator.code.decode import CodeInfo
from stator.code.flow311 import CLOSING
from stator.code.needed import looks_at_variables, needed_slots
from stator.code.terms import Reader
from stator.code.terms311 import COMPARISON, Term

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
    indexes: int  # the unit at which it is indexed
    copies: int | None  # the unit at which `contiguous()` is called, if it is


class NotRead(Exception):
    """The instructions are no such branch."""


class BranchReader(Reader):
    """Reads what is known to come."""

    def expect(self, term: str, arg: Any = None) -> Any:
        found, given = self.next()
        if found != term or (arg is not None and given != arg):
            raise NotRead
        return given

    def values(self, end: str, count: int) -> tuple[Steps, Any]:
        """Terms that leave so many values for another one, and the argument of that."""
        steps: Steps = []
        depth = 0
        for _ in range(_MOST):
            term, arg = self.next()
            if term == end and depth == count:
                return steps, arg
            depth += self.taken(term, arg, depth)
            steps.append((term, arg))
        raise NotRead

    def taken(self, term: str, arg: Any, depth: int) -> int:
        """By how much a term changes the number of values."""
        if term not in _TAKEN or _TAKEN[term](arg) > depth:
            raise NotRead
        return 1 - _TAKEN[term](arg)

    def conditions(self) -> tuple[list[tuple[str, Steps]], int]:
        """Comparisons that lead into what follows as well, and where it goes on if none holds.

        What they come to may be given to a variable first, that nothing but the branch reads.
        """
        others: list[tuple[str, Steps]] = []
        body = kind = None
        term, target = self.next()
        while term in ("if", "or") and kind in (None, term) and body in (None, target) and len(others) < _MOST:
            kind, body = term, target
            steps, comparison, (term, target) = self.condition()
            others.append((comparison, steps))
        if term == "store" and kind != "if" and body in (None, self.last):
            body = None
            self.expect("variable", target)
            variable, target = target, self.expect("unless")
            if variable in read_behind(self.info, self.unit) | read_behind(self.info, target):
                raise NotRead
        elif term != "unless" or kind == "or":
            raise NotRead
        if body is not None and not self.is_at(body):
            raise NotRead
        return others, target

    def condition(self) -> tuple[Steps, str, Term]:
        """What leads to the operands of a comparison, and the jump; a number alone is compared with zero."""
        steps: Steps = []
        depth = 0
        for _ in range(_MOST):
            term, arg = self.next()
            if term == "comparison" and depth == 2:
                return steps, arg, self.next()
            if term in ("if", "unless") and depth == 1:
                return [*steps, ("constant", 0)], "!=", (term, arg)
            depth += self.taken(term, arg, depth)
            steps.append((term, arg))
        raise NotRead


def cut_after(info: CodeInfo, unit: int) -> Cut | None:
    """What the branch at a unit, or on the comparison there, is if it does nothing but cut a variable."""
    try:
        return _read(branch_at(info, unit))
    except NotRead:
        return None


def branch_at(info: CodeInfo, unit: int) -> BranchReader:
    """Reads from the jump on."""
    return BranchReader(info, info.ops[unit][2] if info.names[unit] == COMPARISON else unit)


def read_behind(info: CodeInfo, unit: int) -> set[int]:
    """The variables that are read from an instruction on before they get another value, or that closures know."""
    if looks_at_variables(info.code):
        raise NotRead
    needed = needed_slots(info, unit)
    found = {slot for slot in range(needed.bit_length()) if needed >> slot & 1}
    return found | {arg for name, (_, arg, _) in zip(info.names, info.ops, strict=True) if name in CLOSING}


def _read(reader: BranchReader) -> Cut:
    others, target = reader.conditions()
    variable = reader.expect("variable")
    key, _ = reader.values("item", 1)
    indexes, copies = reader.last, None
    term, arg = reader.next()
    if (term, arg) == ("method", "contiguous"):
        reader.expect("call", 0)
        copies = reader.last
        term, arg = reader.next()
    if (term, arg) != ("store", variable) or not reader.is_at(target):
        raise NotRead
    return Cut(others, variable, key, indexes, copies)
