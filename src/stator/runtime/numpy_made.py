"""Scalars that numpy makes of numbers that vary: `int(np.ceil(h / 32) * 32)`, `x * np.sqrt(n)`, `np.prod(x.shape)`.

They stay symbols next to tensors, in `int` and `float`, and in arithmetic with each other and with numbers of Python.
Whatever else looks at one sees a scalar of numpy, and makes a constant of it.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from types import SimpleNamespace
from typing import Any

from stator.eval.settling import SERVED
from stator.frame import Frame
from stator.runtime.number_calls import ROW_KINDS, ROWS, Caller
from stator.runtime.numpy_numbers import READ, HollowNumber, NumpyNumber, np
from stator.shapes import looking_up, stairs
from stator.shapes.floats import TracedFloat, calculated, depends_on_data, whole
from stator.shapes.scalar import TracedInt
from stator.world.hollow import DECLINED

SYMBOLS = (TracedInt, TracedFloat)
DTYPES: dict[Any, type] = {int: int, "int": int, "int64": int, float: float, "float": float, "float64": float}
IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
}
COMPARED = frozenset({operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge})
KINDS: dict[Any, type] = {int: int, TracedInt: int, float: float, TracedFloat: float}
READ_AS: dict[type, Any] = {}  # by kind of operand: the number that it is


class MadeNumber(NumpyNumber):
    """A symbolic number that the program sees as a scalar of numpy."""

    lasting = False
    methods = frozenset({"item", "astype"})

    def __init__(self, world: Any, traced: Any, kind: Any) -> None:
        self.world = world
        self.traced = traced
        self.kind = kind
        self.inner = self.obj = kind(now(traced))
        self.record: Any = SimpleNamespace(hollow=self)

    def number(self) -> Any:
        return self.traced

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        return super().call(f, name, args) if name == "item" else self.astype(args)

    def astype(self, args: list[Any]) -> Any:
        """As another int or float; not one that has no room for it."""
        kind = DTYPES.get(args[0]) if len(args) == 1 and type(args[0]) in (str, type) else None
        if kind is None or kind_of(self) is None:
            return DECLINED
        made = self.traced
        if kind is int and type(made) is TracedFloat:
            made = whole(int, made)
        elif kind is float and type(made) is TracedInt:
            made = calculated(float, made)
        return (
            register(self.world, made, np.float64 if kind is float else np.int64) if type(made) in SYMBOLS else DECLINED
        )

    def truth(self) -> Any:
        return bool(self.traced != 0) if kind_of(self) is int else DECLINED

    def fill(self) -> None:
        self.traced.decay()


def combined(world: Any, function: Any, left: Any, right: Any) -> Any:
    """What an operator makes of two numbers, one of them a scalar of numpy and one a symbol."""
    parts = [world.hollow.get(id(part), part) for part in (left, right)]
    kinds = set(map(kind_of, parts))
    numbers = [READ_AS.get(type(part), as_it_is)(part) for part in parts]
    function = IN_PLACE.get(function, function)
    if None in kinds or any(map(depends_on_data, numbers)) or not all(map(has_room, numbers)):
        return DECLINED
    if function in COMPARED:
        return np.bool_(bool(function(*numbers))) if kinds == {int} else DECLINED
    made = function(*numbers) if may(function, kinds, numbers[1]) else None
    if type(made) not in SYMBOLS:
        return DECLINED
    return register(world, made, np.float64 if type(made) is TracedFloat else np.int64)


def applied(world: Any, function: Any, hollow: Any) -> Any:
    """What `-` or `abs` makes of a scalar of numpy."""
    if kind_of(hollow) is None or depends_on_data(number := hollow.number()):
        return DECLINED
    made = function(number)
    return register(world, made, type(hollow.obj)) if type(made) in SYMBOLS else DECLINED


def number_in(host: Any, array: Any, place: TracedInt) -> Any:
    """`array[n]` of a row of numbers that is known: one of a table."""
    if array.ndim != 1 or array.dtype not in TABLES:
        return DECLINED
    found = looking_up.number_at(host.floats, array.tolist(), place)
    return register(host, found, array.dtype.type) if type(found) in SYMBOLS else DECLINED


def has_room(number: Any) -> bool:
    """Whether numpy holds an int of Python."""
    return type(number) is not int or -(2**63) <= number < 2**63


def as_it_is(part: Any) -> Any:
    return part


def kind_of(part: Any) -> Any:
    """int or float, where numpy calculates as Python does; None for all else."""
    return KINDS.get(type(part.inner) if isinstance(part, NumpyNumber) else type(part))


def may(function: Any, kinds: set[Any], right: Any) -> bool:
    """Whether numpy gives what Python gives: not where it divides by zero."""
    if function in (operator.add, operator.sub, operator.mul):
        return True
    whole_quotient = function in (operator.floordiv, operator.mod) and kinds == {int}
    return (whole_quotient or function is operator.truediv) and bool(right != 0)


def now(traced: Any) -> Any:
    return traced.value if type(traced) is TracedFloat else traced.symbols.unknowns.hint(traced.number)


def register(host: Any, traced: Any, kind: Any) -> Any:
    """The scalar as the program sees it."""
    made = MadeNumber(host, traced, kind)
    host.hollow[id(made.inner)] = made
    if host.machine is not None:
        host.machine.be_careful()
    return made.inner


def is_listing(value: Any) -> bool:
    return issubclass(type(value), (list, tuple))  # without asking it for its class


def made_by(kind: str, calculate: Any) -> Caller:
    """A row for a function of one number or list; `calculate` gives a symbol, or NotImplemented."""

    def row(host: Any, f: Frame, args: list[Any]) -> Any:
        if len(args) != 1:
            return NotImplemented
        items = args[0] if is_listing(args[0]) else args
        if not any(type(item) in SYMBOLS for item in items) or any(map(depends_on_data, items)):
            return NotImplemented
        traced = calculate(host, f, args[0])
        return register(host, traced, getattr(np, kind)) if type(traced) in SYMBOLS else NotImplemented

    return row


def is_positive(number: Any) -> bool:
    return bool(number > 0.0)


def rounding(function: Any) -> Any:
    """A float without fraction; negative ones become zeros with a sign."""

    def calculate(host: Any, f: Frame, number: Any) -> Any:
        if type(number) is not TracedFloat:
            return NotImplemented
        made = stairs.counted(function, number, positive=True)
        if made is None and not is_positive(number):
            return NotImplemented
        made = whole(function, number) if made is None else made
        return calculated(float, made) if type(made) is TracedInt else NotImplemented

    return calculate


def root(host: Any, f: Frame, number: Any) -> Any:
    """The same double in numpy and in C."""
    return calculated(math.sqrt, number) if type(number) in SYMBOLS and now(number) >= 0 else NotImplemented


def function_of(name: str) -> Any:
    """A function of doubles that numpy calculates by itself, when the call comes in."""
    function = getattr(np, name)

    def apply(number: Any) -> float:
        return float(function(number))

    return lambda host, f, number: calculated(apply, number) if type(number) in SYMBOLS else NotImplemented


def folded(function: Any) -> Any:
    """Of a list of ints."""

    def calculate(host: Any, f: Frame, items: Any) -> Any:
        if not is_listing(items) or any(type(item) not in (int, TracedInt) for item in items):
            return NotImplemented
        return function(host, f, items)

    return calculate


def converted(kind: type) -> Any:
    return lambda host, f, number: number if type(number) is kind else NotImplemented


def bounded(*extremes: Any) -> Caller:
    """Ints between ints: `np.maximum(n, 8)`, `np.clip(n, 1, 8)`."""

    def row(host: Any, f: Frame, args: list[Any]) -> Any:
        if len(args) != 1 + len(extremes) or any(type(arg) not in (int, TracedInt) for arg in args):
            return NotImplemented
        if TracedInt not in map(type, args) or any(map(depends_on_data, args)):
            return NotImplemented
        made = args[0]
        for function, bound in zip(extremes, args[1:], strict=True):
            varies = TracedInt in (type(made), type(bound))
            made = ROWS[function](host, f, [made, bound]) if varies else function(made, bound)
        return register(host, made, np.int64) if type(made) is TracedInt else NotImplemented

    return row


ROUNDINGS = {"ceil": math.ceil, "floor": math.floor, "trunc": int, "rint": round, "round": round}
FUNCTIONS = (
    "exp", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "square", "float32", "absolute",
)  # fmt: skip
FOLDS = {
    "prod": lambda host, f, items: reduce(operator.mul, items),
    "sum": lambda host, f, items: reduce(operator.add, items),
    "max": lambda host, f, items: extreme_of(max, host, f, items),
    "min": lambda host, f, items: extreme_of(min, host, f, items),
}


def extreme_of(function: Any, host: Any, f: Frame, items: Any) -> Any:
    return ROWS[function](host, f, list(items))


def serve_made(function: Any) -> Any:
    """Of a scalar of numpy that varies, the function of its number."""

    def serve(f: Frame, hollow: Any, args: list[Any]) -> Any:
        if len(args) != 1 or not isinstance(hollow, NumpyNumber) or kind_of(hollow) is None:
            return DECLINED
        number = hollow.number()  # the first one changes how calls are made
        return f.world.call(f, function, [number], None)

    return serve


if np is not None:
    DTYPES |= {np.int64: int, np.float64: float}
    KINDS |= {np.int64: int, np.float64: float}
    READ_AS |= {np.int64: READ, np.float64: READ, MadeNumber: MadeNumber.number, HollowNumber: HollowNumber.number}
    NumpyNumber.combined = staticmethod(combined)
    NumpyNumber.applied = staticmethod(applied)
    TABLES = frozenset(map(np.dtype, (np.float64, np.float32, np.int64)))
    for _name in (*ROUNDINGS, *FUNCTIONS, "sqrt"):
        SERVED[id(getattr(np, _name))] = serve_made(getattr(np, _name))
    for _name, _function in ROUNDINGS.items():
        ROWS[getattr(np, _name)] = made_by("float64", rounding(_function))
    for _name in FUNCTIONS:
        ROWS[getattr(np, _name)] = made_by("float32" if _name == "float32" else "float64", function_of(_name))
    for _name, _fold in FOLDS.items():
        ROWS[getattr(np, _name)] = made_by("int64", folded(_fold))
    ROWS[np.sqrt] = made_by("float64", root)
    ROWS[np.maximum], ROWS[np.minimum], ROWS[np.clip] = bounded(max), bounded(min), bounded(max, min)
    ROWS[np.int64] = made_by("int64", converted(TracedInt))
    ROWS[np.float64] = made_by("float64", converted(TracedFloat))
    ROW_KINDS.update({type(np.ceil), type(np.prod)})
