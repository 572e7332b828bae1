"""Comparisons of sizes whose answer makes no difference: what follows decides.

`causal = n > 1 and mask is None` where there is a mask, `if n == 1 or n == m` where both are one number: either way the
program comes to the same instruction with the same values on its stack, and all that it does until then is to look at
constants. So nothing is guarded.
"""

from __future__ import annotations

from typing import Any

import torch

from stator.code.operators import COMPARE
from stator.code.terms311 import BRANCHES, COMPARISON, NONE_BRANCHES
from stator.frame import UNBOUND, Frame
from stator.shapes.arithmetic import number_of
from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import Symbols
from stator.world.lazy import Lazy, forced

COMPARISONS = frozenset(COMPARE.values())
_INTS = frozenset({int, TracedInt})
_LOOKED_AT = frozenset({type(None), bool, int, torch.Tensor})  # types of values that enter for the sake of an answer
_MOST = 32  # instructions of a side


class _Unknown(Exception):
    """Something else than constants and answers that are known."""


def answer(host: Any, f: Frame, function: Any, args: tuple[Any, ...]) -> bool | None:
    """What a comparison comes to in this call if that makes no difference; None: it is a question."""
    info = f.info
    if info.names[f.lasti] != COMPARISON or any(type(arg) not in _INTS for arg in args):
        return None
    following = info.ops[f.lasti][2]
    if info.names[following] not in BRANCHES:
        return None
    symbols = next(arg.symbols for arg in args if type(arg) is TracedInt)
    if host.recorder.sub is not None or symbols.is_answered(function, *args):
        return None
    yes, no = (_Side(host, f, symbols, value).states(following) for value in (True, False))
    if not yes & no:
        return None
    hint = symbols.unknowns.hint(symbols.unknowns.difference(*map(number_of, args)))
    return None if hint is None else bool(function(hint, 0))


class _Side:
    """What the program does behind one of the answers."""

    def __init__(self, host: Any, f: Frame, symbols: Symbols, value: bool) -> None:
        self.host = host
        self.f = f
        self.symbols = symbols
        self.stack: list[Any] = [value]

    def states(self, unit: int) -> set[tuple[int, tuple[int, ...]]]:
        """The instructions that it comes to, each with what is on the stack then, by identity."""
        found = set()
        for _ in range(_MOST):
            found.add((unit, tuple(map(id, self.stack))))
            try:
                unit = self.step(unit)
            except _Unknown:
                break
        return found

    def step(self, unit: int) -> int:
        """Executes an instruction; what comes is the next one."""
        name = self.f.info.names[unit]
        _, arg, following = self.f.info.ops[unit]
        if name in BRANCHES:
            jumps_if, stays = BRANCHES[name]
            jumps = self.condition() is jumps_if
            if not (jumps and stays):
                self.stack.pop()
            return int(arg if jumps else following)
        if name in NONE_BRANCHES:
            return int(arg if (self.pop() is None) is NONE_BRANCHES[name] else following)
        if name not in _STEPS:
            raise _Unknown
        _STEPS[name](self, arg)
        return following

    def condition(self) -> bool:
        value = self.pop()
        if value is not None and type(value) is not bool:
            raise _Unknown
        self.stack.append(value)
        return bool(value)

    def pop(self) -> Any:
        if not self.stack:
            raise _Unknown
        value = self.stack.pop()
        if type(value) is Lazy and value.entered is None and type(value.value) not in _LOOKED_AT:
            raise _Unknown
        return forced(self.host, value)

    # ---- instructions -------------------------------------------------------------------------------

    def constant(self, arg: Any) -> None:
        self.stack.append(arg)

    def variable(self, slot: int) -> None:
        value = self.f.locals[slot]
        if value is UNBOUND:
            raise _Unknown
        self.stack.append(value)

    def identity(self, inverted: int) -> None:
        right, left = self.pop(), self.pop()
        if left is not None and right is not None:
            raise _Unknown
        self.stack.append((left is right) is not bool(inverted))

    def comparison(self, sign: str) -> None:
        right, left = self.pop(), self.pop()
        if type(left) not in _INTS or type(right) not in _INTS:
            raise _Unknown
        known = self.symbols.settled(COMPARE[sign], left, right)
        if known is None:
            raise _Unknown
        self.stack.append(known)

    def opposite(self, arg: Any) -> None:
        self.stack.append(not self.condition())
        del self.stack[-2]


_STEPS: dict[str, Any] = {
    "LOAD_CONST": _Side.constant,
    "LOAD_FAST": _Side.variable,
    "IS_OP": _Side.identity,
    COMPARISON: _Side.comparison,
    "UNARY_NOT": _Side.opposite,
}
