"""Branches that cut off what was added before: `if pad > 0 or more > 0: x = x[:, :n, :m].contiguous()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stator.code.decode import CodeInfo

# How many values an instruction takes for the one that it leaves; it calls nothing of the program for plain numbers.
_TAKEN: dict[str, Callable[[int], int]] = {
    "LOAD_CONST": lambda arg: 0,
    "LOAD_FAST": lambda arg: 0,
    "BINARY_SUBSCR": lambda arg: 2,
    "BINARY_OP": lambda arg: 2,
    "BUILD_SLICE": lambda arg: arg,
    "BUILD_TUPLE": lambda arg: arg,
}
_FALSE, _TRUE = "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE"
_MOST = 64  # instructions

Steps = list[tuple[str, Any]]  # instructions with their arguments


class Cut(NamedTuple):
    """What follows a comparison: others, one of which is enough, and the variable that is indexed if one holds."""

    others: list[tuple[str, Steps]]  # the comparison, and the instructions that lead to its operands
    variable: int
    key: Steps  # the instructions that lead to the index
    copies: int | None  # the unit at which `contiguous()` is called, if it is


class _NoCut(Exception):
    pass


class _Reader:
    """Reads instructions one after the other."""

    def __init__(self, info: CodeInfo, unit: int) -> None:
        self.info = info
        self.unit = unit

    def next(self) -> tuple[str, Any]:
        self.last = self.unit
        _, arg, following = self.info.ops[self.unit]
        name = self.info.names[self.unit]
        self.unit = following
        return name, arg

    def expect(self, name: str, arg: Any = None) -> Any:
        found, given = self.next()
        if found != name or (arg is not None and given != arg):
            raise _NoCut
        return given

    def values(self, end: str, count: int) -> tuple[Steps, Any]:
        """Instructions that leave so many values for another one, and the argument of that."""
        steps: Steps = []
        depth = 0
        for _ in range(_MOST):
            name, arg = self.next()
            if name == end and depth == count:
                return steps, arg
            if name not in _TAKEN or _TAKEN[name](arg) > depth:
                raise _NoCut
            depth += 1 - _TAKEN[name](arg)
            steps.append((name, arg))
        raise _NoCut


def cut_after(info: CodeInfo, unit: int) -> Cut | None:
    """What the branch on the comparison at a unit is, if it does nothing but cut a variable."""
    try:
        return _read(_Reader(info, info.ops[unit][2]))
    except _NoCut:
        return None


def _read(reader: _Reader) -> Cut:
    others: list[tuple[str, Steps]] = []
    body = None
    for _ in range(_MOST):
        name, target = reader.next()
        if name == _FALSE:
            break
        if name != _TRUE or body not in (None, target):
            raise _NoCut
        body = target
        steps, comparison = reader.values("COMPARE_OP", 2)
        others.append((comparison, steps))
    else:
        raise _NoCut
    if body not in (None, reader.unit):
        raise _NoCut
    variable = reader.expect("LOAD_FAST")
    key, _ = reader.values("BINARY_SUBSCR", 1)
    copies = None
    name, arg = reader.next()
    if (name, arg) == ("LOAD_METHOD", "contiguous"):
        reader.expect("PRECALL", 0)
        reader.expect("CALL", 0)
        copies = reader.last
        name, arg = reader.next()
    if (name, arg) != ("STORE_FAST", variable) or reader.unit != target:
        raise _NoCut
    return Cut(others, variable, key, copies)
