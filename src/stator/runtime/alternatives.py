"""Branches on numbers from outside that only choose between floats: rates of a schedule, in one entry for all steps.

`lr = base * step / 4 if step < 4 else base`, `if step > last: return least`: what both sides calculate becomes one
function that the entry function calls, so the comparison is no guard. Where something needs the float itself (another
comparison, a text, a key), the side that this call takes is guarded as ever.
"""

from __future__ import annotations

import math
import operator
import types
from typing import Any

from stator import _frames
from stator.code import flow311, joining, raising
from stator.code.operators import BINARY, COMPARE, SIGNS
from stator.frame import UNBOUND, Frame
from stator.runtime.choosing import NoChoice, Side
from stator.runtime.number_calls import ROWS
from stator.shapes.alternatives import Alternatives, NoText, Term
from stator.shapes.arithmetic import number_of
from stator.shapes.calculations import choose
from stator.shapes.floats import MATH, TracedFloat, depends_on_data, floats_of, now
from stator.shapes.scalar import TracedInt
from stator.world.lazy import forced

_NUMBERS = frozenset({int, float, bool, TracedInt, TracedFloat, Term})
_PLAIN = frozenset({int, float})
_CONSTANTS = frozenset({int, float, bool})
_COMPARISONS = frozenset(COMPARE.values())
_FUNCTIONS = frozenset({*MATH, max, min, abs, float})  # of numbers, which give numbers
_SIGNED = frozenset(SIGNS) - {operator.matmul}
_IN_PLACE = {getattr(operator, f"i{name}"): function for function, (name, _) in SIGNS.items()}


class Chosen:
    """On the stack in the place of a comparison: both sides of the branch on it are calculated."""

    __slots__ = ("function", "join", "numbers", "stack", "variables")

    def __init__(self, function: Any, numbers: tuple[Any, ...], join: int, made: _Side) -> None:
        self.function = function
        self.numbers = numbers
        self.join = join
        self.stack = made.stack
        self.variables = made.variables

    def go_on(self, f: Frame) -> int:
        """Behind the branch."""
        f.stack[:] = self.stack
        f.locals[:] = self.variables
        return self.join

    @property
    def sign(self) -> str:
        return next(sign for sign, function in COMPARE.items() if function is self.function)


def asked(host: Any, f: Frame, function: Any, args: tuple[Any, ...]) -> Chosen | None:
    """What stands for a comparison if both sides of the branch on it do for all numbers; None: it is a question."""
    info = f.info
    branch = info.ops[f.lasti][2]
    if info.names[f.lasti] != "COMPARE_OP" or info.names[branch] not in flow311.BRANCHES:
        return None
    if host.recorder.sub is not None or not host.floats.has_ints or not _is_open(function, args):
        return None
    join = None if raising.expected(info, branch) is not None else joining.join_of(info, branch, calls=True)
    if join is None or "locals" in f.code.co_names:
        return None
    _, target, following = info.ops[branch]
    sides = (target, following) if flow311.BRANCHES[info.names[branch]] else (following, target)
    start = _Side(host, f, f.stack[:-2], list(f.locals))  # without the operands
    start.unread = joining.left_behind(info, branch, join)
    try:
        made = start.either(Term(function, args), sides, join)
        made.finished()
    except (NoChoice, NoText):
        return None
    return Chosen(function, args, join, made)


def _is_open(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a comparison of numbers is one that calls may answer differently, before the graph runs."""
    if any(type(arg) not in _NUMBERS for arg in args) or any(map(depends_on_data, args)) or floats_of(args) is None:
        return False
    if TracedFloat in map(type, args) or float in map(type, args):
        return True
    symbols = next(arg.symbols for arg in args if type(arg) is TracedInt)
    return not symbols.is_answered(function, *map(number_of, args))


def _settled(term: Any) -> Any:
    """What a term gives the way that this call goes, as the program calculates it."""
    if type(term) is not Term:
        return term
    if term.function is choose:
        condition, yes, no = term.args
        return _settled(yes if _settled(condition) else no)
    args = [_settled(arg) for arg in term.args]
    row = ROWS.get(term.function)
    made = NotImplemented if row is None else row(None, None, args)  # type: ignore[arg-type]
    return term.function(*args) if made is NotImplemented else made


def _is_float(term: Any) -> bool:
    """Whether a calculation gives a float, if it gives a number at all."""
    if type(term) is not Term:
        return type(term) in (float, TracedFloat)
    if term.function is operator.truediv or term.function in MATH or term.function is float:
        return True
    given = map(_is_float, term.args[1:] if term.function is choose else term.args)
    return all(given) if term.function in (choose, max, min) else any(given)


class _Side(Side):
    """The variables and the stack on one side of a branch, where calculations are left to the entry function."""

    calls = True

    def __init__(self, host: Any, f: Frame, stack: list[Any], variables: list[Any]) -> None:
        super().__init__(host, f, stack, variables)
        self.unread: set[int] = set()  # variables that only the sides look at

    def copy(self) -> Any:
        made = super().copy()
        made.unread = self.unread
        return made

    def either(self, condition: Any, sides: tuple[int, int], join: int) -> _Side:
        first, second = self.copy(), self.copy()
        first.run(sides[0], join)
        second.run(sides[1], join)
        if len(first.stack) != len(second.stack):
            raise NoChoice
        made = self.copy()
        made.stack = [self.merged(condition, *pair) for pair in zip(first.stack, second.stack, strict=True)]
        if self.f.info.names[join] != "RETURN_VALUE":
            for slot, pair in enumerate(zip(first.variables, second.variables, strict=True)):
                if slot not in self.unread:
                    made.variables[slot] = self.merged(condition, *pair)
        return made

    def condition(self, value: Any) -> Any:
        is_comparison = type(value) is Term and value.function in _COMPARISONS
        return value if is_comparison or type(value) is bool else _refuse()

    def merged(self, condition: Any, yes: Any, no: Any) -> Any:
        if yes is no:
            return yes
        yes, no = self.number(yes), self.number(no)
        if yes is no or (type(yes) is type(no) and type(yes) in _CONSTANTS and repr(yes) == repr(no)):
            return yes
        return Term(choose, (condition, yes, no)) if _is_float(yes) and _is_float(no) else _refuse()

    def finished(self) -> None:
        """What was chosen becomes floats of the program."""
        for values in (self.stack, self.variables):
            values[:] = [_float_of(value) if type(value) is Term else value for value in values]

    def number(self, value: Any) -> Any:
        value = forced(self.host, value)
        return value if type(value) in _NUMBERS and not depends_on_data(value) else _refuse()

    def is_plain(self, value: Any) -> bool:
        return type(value) is Term or super().is_plain(value)

    # ---- instructions -------------------------------------------------------------------------------

    def binary(self, arg: int) -> None:
        right, left = self.number(self.pop()), self.number(self.pop())
        function = _IN_PLACE.get(BINARY[arg], BINARY[arg])
        self.stack.append(Term(function, (left, right)) if function in _SIGNED else _refuse())

    def compare(self, arg: str) -> None:
        right, left = self.number(self.pop()), self.number(self.pop())
        self.stack.append(Term(COMPARE[arg], (left, right)))

    def negative(self, arg: Any) -> None:
        self.stack.append(Term(operator.neg, (self.number(self.pop()),)))

    def positive(self, arg: Any) -> None:
        _refuse()

    def null(self, arg: Any) -> None:
        self.stack.append(UNBOUND)

    def load_global(self, arg: tuple[str, int]) -> None:
        name, null = arg
        f = self.f
        if type(f.globals) is not dict or type(f.builtins) is not dict:
            _refuse()
        if not _is_known(dict.get(f.globals, name, dict.get(f.builtins, name))):
            _refuse()
        if null:
            self.stack.append(UNBOUND)
        self.stack.append(self.known(self.host.load_global(f, name)))

    def load_deref(self, slot: int) -> None:
        cell = self.f.locals[slot]
        if type(cell) is not types.CellType or not _is_known(_frames.cell_get(cell)):
            _refuse()
        self.stack.append(self.known(self.host.load_cell(self.f, slot)))

    def load_attr(self, name: str) -> None:
        obj = forced(self.host, self.pop())
        if obj is not math:
            info = self.host.type_info(type(obj)) if id(obj) in self.host.records else _refuse()
            held = _frames.instance_dict(obj) if info.generic_read and not info.pure_inside else None
            if type(held) is not dict or type(held.get(name)) not in _PLAIN:
                _refuse()
            if _frames.type_lookup(type(obj), name) is not UNBOUND:
                _refuse()
        self.stack.append(self.known(self.host.seek_attr(self.f, obj, name)))

    def load_method(self, name: str) -> None:
        if forced(self.host, self.stack[-1] if self.stack else _refuse()) is not math:
            _refuse()
        self.load_attr(name)
        self.stack.insert(-1, UNBOUND)

    def known(self, value: Any) -> Any:
        value = forced(self.host, value)
        return value if value is math or type(value) in _NUMBERS or _is_function(value) else _refuse()

    def call(self, count: int) -> None:
        if len(self.stack) < count + 2 or self.f.kwnames:
            _refuse()
        args = tuple(map(self.number, self.stack[len(self.stack) - count :]))
        null, function = self.stack[len(self.stack) - count - 2 : len(self.stack) - count]
        if null is not UNBOUND or not _is_function(function) or not args:
            _refuse()
        self.stack[len(self.stack) - count - 2 :] = [Term(function, args)]


def _is_function(value: Any) -> bool:
    return type(value) in (types.BuiltinFunctionType, type) and value in _FUNCTIONS


def _is_known(value: Any) -> bool:
    """Whether a value from outside is a number, or what makes numbers; not one that enters in vain."""
    return value is math or type(value) in _NUMBERS or _is_function(value)


def _refuse() -> Any:
    raise NoChoice


def _float_of(term: Term) -> TracedFloat:
    """The float that the entry function calculates."""
    made = Alternatives(term, _settled)
    try:
        value = made(*map(now, made.leaves))
    except Exception:  # the program raises, or goes on with another type
        raise NoChoice from None
    return TracedFloat(floats_of(made.leaves), value, made, made.leaves)


_Side.steps = {
    **Side.steps,
    "BINARY_OP": _Side.binary,
    "COMPARE_OP": _Side.compare,
    "UNARY_NEGATIVE": _Side.negative,
    "UNARY_POSITIVE": _Side.positive,
    "PUSH_NULL": _Side.null,
    "PRECALL": _Side.nothing,
    "LOAD_GLOBAL": _Side.load_global,
    "LOAD_DEREF": _Side.load_deref,
    "LOAD_ATTR": _Side.load_attr,
    "LOAD_METHOD": _Side.load_method,
    "CALL": _Side.call,
}
