"""What C functions make of symbolic numbers: `int`, `max`, `range`, `math.*`, one row for each."""

from __future__ import annotations

import abc
import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from stator.frame import Frame
from stator.native.host import Host
from stator.runtime import given_texts, unrolling
from stator.shapes import polynomial
from stator.shapes.arithmetic import number_of
from stator.shapes.calculations import FLOAT, INT_MATH, distance_of, sum_of
from stator.shapes.floats import MATH, QUESTIONS, SYMBOLIC, TracedFloat, calculated, depends_on_data, whole
from stator.shapes.scalar import INTS, TracedBool, TracedInt, evaluated, from_data
from stator.shapes.tables import LONGEST, Rank
from stator.tensors.arrays import TracedArray
from stator.tensors.traced import TracedTensor

Caller = Callable[[Any, Frame, list[Any]], Any]


def int_of(host: Any, f: Frame, args: list[Any]) -> Any:
    if len(args) == 1 and type(args[0]) is TracedFloat:
        return whole(int, args[0])
    if len(args) == 1 and type(args[0]) is TracedBool:
        return args[0].whole()
    return args[0] if len(args) == 1 and type(args[0]) is TracedInt else NotImplemented


def index_of(host: Any, f: Frame, args: list[Any]) -> Any:
    return args[0] if len(args) == 1 and type(args[0]) is TracedInt else NotImplemented


def float_of(host: Any, f: Frame, args: list[Any]) -> Any:
    if len(args) == 1 and type(args[0]) is TracedBool:
        return calculated(float, args[0].whole())
    if len(args) != 1 or type(args[0]) not in SYMBOLIC:
        return NotImplemented
    same = type(args[0]) is TracedFloat and not args[0].mixed
    return args[0] if same else calculated(float, args[0])


def math_of(function: Any) -> Caller:
    """A function of floats that gives a float."""

    def call(host: Any, f: Frame, args: list[Any]) -> Any:
        return NotImplemented if SYMBOLIC.isdisjoint(map(type, args)) else calculated(function, *args)

    return call


def whole_of(function: Any) -> Caller:
    """A function of ints that gives an int."""

    def call(host: Any, f: Frame, args: list[Any]) -> Any:
        if TracedInt not in map(type, args) or any(type(arg) not in INTS for arg in args):
            return NotImplemented
        if not from_data(*args):
            plain = all(type(arg) in (int, TracedInt) for arg in args)
            return host.floats.counted(function, *args) if plain else NotImplemented
        return evaluated(function, tuple(args), INT_MATH[function])

    return call


def question_of(function: Any) -> Caller:
    """A question about a float, guarded."""

    def call(host: Any, f: Frame, args: list[Any]) -> Any:
        return QUESTIONS[function](args[0]) if len(args) == 1 and type(args[0]) is TracedFloat else NotImplemented

    return call


def length_of(host: Any, f: Frame, args: list[Any]) -> Any:
    if len(args) == 1 and type(args[0]) is TracedTensor:
        return host.record(f, torch.Tensor.__len__, args, None)
    if len(args) == 1 and type(args[0]) is TracedArray and args[0].sizes:
        return args[0].sizes[0]
    return given_texts.length_of(args[0]) if len(args) == 1 else NotImplemented


def range_of(host: Any, f: Frame, args: list[Any]) -> Any:
    """What a loop goes over: only how many numbers there are is guarded, as nobody sees where a range would end."""
    if TracedInt not in map(type, args) or not 1 <= len(args) <= 3 or not unrolling.is_iterated(f):
        return NotImplemented
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if type(start) not in INTS or type(stop) not in INTS or type(step) is not int or step == 0 or from_data(*args):
        return NotImplemented
    distance = stop - start if step > 0 else start - stop
    count = (distance + (abs(step) - 1)) // abs(step) if distance > 0 else 0
    limited, before, rounds = is_limited(count), unrolling.stamp(host), exactly(count)
    within = range(start, start + rounds * step, step) if type(start) is int else None
    made = [start + i * step for i in range(rounds)] if within is None else within
    fixed = limited or type(polynomial.subtract(number_of(stop), number_of(start))) is int
    if host.counts_rounds and not fixed:
        unrolling.note(host, f, range, args, made, before)
    return made


def is_limited(count: Any) -> bool:
    """Whether a count is the most that it can be, whatever sizes there are, as `min(3, n)` mostly is."""
    if type(count) is not TracedInt or type((unknowns := count.symbols.unknowns).settled(count.number)) is int:
        return False
    most = unknowns.bounds(count.number)[1]
    return most is not None and most == unknowns.hint(count.number)


def exactly(count: Any) -> int:
    """A count as a guarded constant; that it is no less says at least how large what it counts is."""
    if type(count) is TracedInt and (known := count.symbols.unknowns.hint(count.number)) is not None:
        count.symbols.compare(operator.ge, count, known)
    made: int = count.decay() if type(count) is TracedInt else count
    return made


def is_instance(host: Any, f: Frame, args: list[Any]) -> Any:
    """A symbolic number is an instance of what numbers of its type are, for classes that look at the type only."""
    if len(args) != 2 or type(args[0]) not in STANDS_FOR:
        return NotImplemented
    if type(args[0]) is TracedFloat and args[0].mixed:
        return NotImplemented
    classes = list(args[1]) if type(args[1]) is tuple else [args[1]]
    if all(type(cls) in PLAIN_METACLASSES for cls in classes):
        return any(cls in STANDS_FOR[type(args[0])].__mro__ for cls in classes)
    if all(type(cls) in BY_TYPE for cls in classes):
        return Host.call(host, f, isinstance, [STANDS_FOR[type(args[0])](), args[1]], None)
    return NotImplemented


def bool_of(host: Any, f: Frame, args: list[Any]) -> Any:
    """`bool(x)` is no branch yet."""
    if len(args) != 1 or type(args[0]) not in STANDS_FOR:
        return NotImplemented
    return args[0] if type(args[0]) is TracedBool else args[0] != 0


def identity_of(invert: bool) -> Caller:
    """`operator.is_` and `operator.is_not`."""

    def call(host: Any, f: Frame, args: list[Any]) -> Any:
        return host.same(*args) ^ invert if len(args) == 2 else NotImplemented

    return call


def id_of(host: Any, f: Frame, args: list[Any]) -> Any:
    """Which of the two bools it is, the data tells."""
    return id(args[0].decay()) if len(args) == 1 and type(args[0]) is TracedBool else NotImplemented


def is_symbolic(number: Any) -> bool:
    """Whether no comparison of this number should become a guard."""
    return type(number) is TracedInt or depends_on_data(number)


def extreme(plain: Any, function: Any) -> Caller:
    """`max` and `min` of ints or of floats, without a comparison: whichever it is in the next call."""

    def row(host: Any, f: Frame, args: list[Any]) -> Any:
        if len(args) == 1 and type(args[0]) in (list, tuple) and any(map(is_symbolic, args[0])):
            args = list(args[0])
        kinds = set(map(type, args))
        if len(args) > 1 and kinds <= MIXED and kinds & {float, TracedFloat} and any(map(depends_on_data, args)):
            return calculated(plain, *args)
        if len(args) > 1 and TracedFloat in kinds and kinds <= {float, TracedFloat}:
            return calculated(plain, *args)
        if len(args) < 2 or not all(type(arg) in (int, TracedInt) for arg in args):
            return NotImplemented
        return host.symbolic().extreme(function, *args)

    return row


def listed(function: Any, of_all: Any) -> Caller:
    """A function of lists of floats that gives a float; `of_all` takes their items one by one."""

    def call(host: Any, f: Frame, args: list[Any]) -> Any:
        if any(type(arg) not in (list, tuple) for arg in args):
            return NotImplemented
        found = [item for arg in args for item in arg]
        if SYMBOLIC.isdisjoint(map(type, found)) or any(type(item) not in MIXED for item in found):
            return NotImplemented
        if any(map(depends_on_data, found)):
            return host.floats.evaluate(function, tuple(args), FLOAT)
        return calculated(of_all, *found) if len({len(arg) for arg in args}) == 1 else NotImplemented

    return call


def sorted_of(host: Any, f: Frame, args: list[Any]) -> Any:
    """Floats in order, without a comparison: whichever comes at each place in the next call."""
    if len(args) != 1 or type(args[0]) not in (list, tuple) or not 1 < len(args[0]) <= LONGEST:
        return NotImplemented
    kinds = set(map(type, args[0]))
    if TracedFloat not in kinds or not kinds <= {float, TracedFloat} or any(map(depends_on_data, args[0])):
        return NotImplemented
    return [calculated(Rank(place), *args[0]) for place in range(len(args[0]))]


def parts_of(host: Any, f: Frame, args: list[Any]) -> Any:
    """`math.modf`."""
    if len(args) != 1 or type(args[0]) is not TracedFloat or args[0].mixed:
        return NotImplemented
    fraction = calculated(math.fmod, args[0], 1.0)
    return fraction, calculated(math.copysign, args[0] - fraction, args[0])


def product_of(host: Any, f: Frame, args: list[Any]) -> Any:
    """`math.prod` of a list with symbolic floats."""
    if len(args) != 1 or type(args[0]) not in (list, tuple) or not MIXED.issuperset(map(type, args[0])):
        return NotImplemented
    return functools.reduce(operator.mul, args[0], 1) if TracedFloat in map(type, args[0]) else NotImplemented


def is_close(host: Any, f: Frame, args: list[Any]) -> Any:
    """`math.isclose` of two numbers, guarded by its comparisons."""
    if len(args) != 2 or TracedFloat not in map(type, args) or not {float, TracedFloat}.issuperset(map(type, args)):
        return NotImplemented
    if any(map(depends_on_data, args)) or not all(
        QUESTIONS[math.isfinite](arg) for arg in args if type(arg) is not float
    ):
        return NotImplemented
    distance = abs(args[1] - args[0])
    return bool(distance <= abs(1e-09 * args[1])) or bool(distance <= abs(1e-09 * args[0]))


MIXED = frozenset({int, float, TracedInt, TracedFloat})


BY_TYPE = frozenset(
    {type, abc.ABCMeta, types.UnionType, type(torch.Tensor), type(torch.nn.Parameter), type(torch.nn.Buffer)}
)


ROWS: dict[Any, Caller] = {
    bool: bool_of,
    max: extreme(max, torch.sym_max),
    min: extreme(min, torch.sym_min),
    sorted: sorted_of,
    int: int_of,
    math.trunc: int_of,
    operator.index: index_of,
    float: float_of,
    len: length_of,
    range: range_of,
    isinstance: is_instance,
    operator.is_: identity_of(False),
    operator.is_not: identity_of(True),
    id: id_of,
    **{function: math_of(function) for function in MATH},
    **{function: question_of(function) for function in QUESTIONS},
    math.fsum: listed(math.fsum, sum_of),
    math.dist: listed(math.dist, distance_of),
    math.modf: parts_of,
    math.prod: product_of,
    math.isclose: is_close,
    **{function: whole_of(function) for function in INT_MATH if type(function) is types.BuiltinFunctionType},
}


ROW_KINDS: set[type] = {types.BuiltinFunctionType, type}


PLAIN_METACLASSES = frozenset({type, type(torch.Tensor), type(torch.nn.Parameter)})  # a number is no tensor


STANDS_FOR: dict[type, type] = {TracedInt: int, TracedFloat: float, TracedBool: bool}
