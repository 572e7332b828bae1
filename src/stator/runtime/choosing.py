"""Branches on data that only choose between numbers, or between tensors that are there already: the graph makes the
choice, and both sides meet without a break.

`reward = 1.0 if action.item() == 1 else 0.0`, `if loss < best: best = loss`, `hits += 1`. Both sides are calculated;
what may be in them cannot fail and has no effects. Where their results are no numbers of one type and no tensors that
are alike (`choices.py`), the branch is one like any other.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from stator.code import flow311, joining, raising
from stator.code.operators import BINARY, COMPARE
from stator.frame import UNBOUND, Frame
from stator.guards.check import TYPE_IS
from stator.runtime import choices
from stator.shapes.calculations import CONDITION, FLOAT, INT, Kind, choose
from stator.shapes.floats import TracedFloat, depends_on_data
from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors import values
from stator.tensors.scalars import truth_tensor
from stator.tensors.traced import TracedTensor
from stator.world.lazy import Lazy, forced

_ARITHMETIC = frozenset(
    {operator.add, operator.sub, operator.mul, operator.iadd, operator.isub, operator.imul}
)  # of numbers, they never raise but for ints that are too large for a float
_TYPES: dict[type, type] = {
    int: int, TracedInt: int, float: float, TracedFloat: float, bool: bool, TracedBool: bool,
}  # fmt: skip
_PLAIN = frozenset({int, float, bool, type(None)})
_KINDS: dict[type, Kind] = {float: FLOAT, int: INT, bool: CONDITION}


MOST_ELEMENTS = 1 << 16  # of tensors that the graph chooses from: it copies the one that it calculates with


class NoChoice(Exception):
    """Something else than numbers and tensors."""


class Side:
    """The variables and the stack of a frame on one side of a branch."""

    steps: dict[str, Any]  # what the instructions do
    calls = False  # whether sides may read names and call what they read

    def __init__(self, host: Any, f: Frame, stack: list[Any], variables: list[Any]) -> None:
        self.host = host
        self.f = f
        self.stack = stack
        self.variables = variables
        self.tested: Any = None  # the condition of the branch as the program has it

    def copy(self) -> Any:
        return type(self)(self.host, self.f, list(self.stack), list(self.variables))

    def run(self, unit: int, join: int) -> None:
        """Executes what leads from an instruction to the one where the sides meet."""
        info = self.f.info
        while unit != join and info.names[unit] != "RETURN_VALUE":  # both sides may return what they have chosen
            name = info.names[unit]
            _, arg, following = info.ops[unit]
            if name in flow311.PLAIN_JUMPS:
                unit = arg
            elif name in flow311.BRANCHES:
                unit = self.branch(unit)
            else:
                self.steps[name](self, arg)
                unit = following

    def branch(self, unit: int) -> int:
        """Goes on where the sides of an inner branch meet."""
        _, target, following = self.f.info.ops[unit]
        tested = self.pop()
        condition = self.condition(tested)
        jumps_if = flow311.BRANCHES[self.f.info.names[unit]]
        if type(condition) is bool:
            return int(target if condition is jumps_if else following)
        join = joining.join_of(self.f.info, unit, self.calls)
        if join is None:
            raise NoChoice
        self.tested = tested
        chosen = self.either(condition, (target, following) if jumps_if else (following, target), join)
        self.stack, self.variables = chosen.stack, chosen.variables
        return join

    def condition(self, value: Any) -> Any:
        """A value as a condition, or a bool."""
        return _condition(self.host, value)

    def either(self, condition: Any, sides: tuple[int, int], join: int) -> Side:
        """What both sides give where they meet; the first is the one for a condition that holds."""
        first, second = self.copy(), self.copy()
        first.run(sides[0], join)
        second.run(sides[1], join)
        if len(first.stack) != len(second.stack):
            raise NoChoice
        pairs = zip((*first.stack, *first.variables), (*second.stack, *second.variables), strict=True)
        made = [self.merged(condition, *pair) for pair in pairs]
        depth = len(first.stack)
        return type(self)(self.host, self.f, made[:depth], made[depth:])

    def merged(self, condition: Any, yes: Any, no: Any) -> Any:
        """The value that is the one or the other."""
        if yes is no:
            return yes
        yes, no = (forced(self.host, value) for value in (yes, no))
        if yes is no:
            return yes
        if type(yes) is TracedTensor and type(no) is TracedTensor:
            return self.tensor(condition, yes, no)
        yes, no = (self.number(value) for value in (yes, no))
        if _TYPES[type(yes)] is not _TYPES[type(no)]:
            raise NoChoice
        if type(yes) is type(no) and type(yes) in (int, float, bool) and repr(yes) == repr(no):
            return yes
        if type(yes) is bool and type(no) is bool:
            return condition if yes else condition.opposite()
        if type(yes) is int and type(no) is int:
            return no + (yes - no) * condition.whole()
        return condition.symbols.floats.evaluate(choose, (condition, yes, no), _KINDS[_TYPES[type(yes)]])

    def tensor(self, condition: TracedBool, yes: TracedTensor, no: TracedTensor) -> TracedTensor:
        """The tensor that is the one or the other."""
        host, recorder = self.host, self.host.recorder
        if host.refers_weakly or not choices.are_alike(host, yes, no, most=MOST_ELEMENTS):
            raise NoChoice
        tested = forced(host, self.tested)
        if type(tested) is not TracedTensor:  # a comparison of numbers
            tested = truth_tensor(recorder, condition)
        if tested._meta.dtype is not torch.bool or tested._meta.size:
            tested = recorder.call(torch.ne, (recorder.call(torch.Tensor.reshape, (tested, ())), 0))
        made = choices.chosen(host, tested, yes, no)
        if made is None:
            raise NoChoice
        return made

    def number(self, value: Any) -> Any:
        value = forced(self.host, value)
        if type(value) not in _TYPES or (type(value) is TracedFloat and value.mixed):
            raise NoChoice
        return value

    def is_plain(self, value: Any) -> bool:
        """Whether nothing happens when a value ends; one that nobody has looked at is guarded by its type."""
        if type(value) is not Lazy or value.entered is not None or type(value.value) is torch.Tensor:
            value = forced(self.host, value)
            return value is None or type(value) in _TYPES or type(value) is TracedTensor
        kind = type(value.value)
        if kind not in _PLAIN:
            return False
        self.host.guards.add(value.path, TYPE_IS, kind, self.host.origin())
        return True

    def pop(self) -> Any:
        if not self.stack:
            raise NoChoice
        return self.stack.pop()

    # ---- instructions -------------------------------------------------------------------------------

    def nothing(self, arg: Any) -> None:
        pass

    def load_const(self, arg: Any) -> None:
        self.stack.append(arg)

    def load_fast(self, slot: int) -> None:
        if self.variables[slot] is UNBOUND:
            raise NoChoice
        self.stack.append(self.variables[slot])

    def store_fast(self, slot: int) -> None:
        before = self.variables[slot]
        if before is not UNBOUND and not self.is_plain(before):
            raise NoChoice  # what it was may end here
        self.variables[slot] = self.pop()

    def binary(self, arg: int) -> None:
        right, left = self.number(self.pop()), self.number(self.pop())
        if BINARY[arg] not in _ARITHMETIC:
            raise NoChoice
        try:
            self.stack.append(BINARY[arg](left, right))
        except OverflowError:
            raise NoChoice from None

    def compare(self, arg: str) -> None:
        right, left = self.number(self.pop()), self.number(self.pop())
        self.stack.append(COMPARE[arg](left, right))

    def negative(self, arg: Any) -> None:
        self.stack.append(-self.number(self.pop()))

    def positive(self, arg: Any) -> None:
        self.stack.append(+self.number(self.pop()))

    def duplicate(self, depth: int) -> None:
        if depth > len(self.stack):
            raise NoChoice
        self.stack.append(self.stack[-depth])

    def swap(self, depth: int) -> None:
        if depth > len(self.stack):
            raise NoChoice
        self.stack[-1], self.stack[-depth] = self.stack[-depth], self.stack[-1]

    def drop(self, arg: Any) -> None:
        self.pop()


Side.steps = {
    "NOP": Side.nothing,
    "LOAD_CONST": Side.load_const,
    "LOAD_FAST": Side.load_fast,
    "STORE_FAST": Side.store_fast,
    "BINARY_OP": Side.binary,
    "COMPARE_OP": Side.compare,
    "UNARY_NEGATIVE": Side.negative,
    "UNARY_POSITIVE": Side.positive,
    "COPY": Side.duplicate,
    "SWAP": Side.swap,
    "POP_TOP": Side.drop,
}


def chosen(host: Any, f: Frame, value: Any) -> int | None:
    """Where the program goes on behind a branch on this value, once the choice is made; None if it is to be decided."""
    if host.recorder.start_symbols is None or host.recorder.sub is not None:
        return None
    if type(value) in (TracedInt, TracedFloat) and not depends_on_data(value):
        return None
    join = None if raising.expected(f.info, f.lasti) is not None else joining.join_of(f.info, f.lasti)
    if join is None or host.recorder.follow() is None:
        return None
    _, target, following = f.info.ops[f.lasti]
    sides = (target, following) if flow311.BRANCHES[f.info.names[f.lasti]] else (following, target)
    try:
        condition = _condition(host, value)
        if type(condition) is bool:
            return None
        start = Side(host, f, [], list(f.locals))
        start.tested = value
        made = start.either(condition, sides, join)
    except NoChoice:
        return None
    f.stack[-1:] = made.stack
    f.locals[:] = made.variables
    return join


def _condition(host: Any, value: Any) -> Any:
    """A value as a condition of the graph, or a bool."""
    value = forced(host, value)
    if type(value) is TracedTensor:
        return values.bool_of(host.recorder, value) if value._meta.size.numel() == 1 else _refuse()
    if type(value) in (TracedBool, bool):
        return value
    if type(value) in _TYPES and depends_on_data(value):
        return value != 0
    return _refuse()


def _refuse() -> Any:
    raise NoChoice
