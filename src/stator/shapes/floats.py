"""The stand-in for a float that changes from call to call.

To Python code it is a float. Arithmetic on it is remembered as an expression, which the entry function calculates again
with Python's own operations before the graph runs. Where a torch call takes it, its value is a 0-d tensor, an input.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, cast

import torch

from stator._entry import RELATION_OPS
from stator.errors import unsupported
from stator.guards.check import EQ
from stator.guards.path import Path
from stator.guards.relation import SIDE, Operand, Relation
from stator.shapes import int_functions, ratios, roundings, stairs
from stator.shapes.alternatives import Alternatives
from stator.shapes.calculations import CONDITION, FLOAT, Kind, literal, source_of
from stator.shapes.expressions import NoForm, Text, fold
from stator.shapes.failing_functions import may_raise
from stator.shapes.float_conditions import COMPARISONS, Certain, Condition, NoCondition
from stator.shapes.scalar import TracedBool, TracedInt, is_derived


class Reading:
    """A number that can be read from small tensors before the graph runs: the n-th of a stage."""

    __slots__ = ("place", "stage", "storage", "tensor", "writes")

    def __init__(self, stage: int, place: int, tensor: Any) -> None:
        self.stage = stage
        self.place = place
        self.tensor = tensor
        self.storage = tensor._storage
        self.writes = len(self.storage.writes)

    def is_current(self) -> bool:
        """Whether the tensor still has the number."""
        return self.tensor._storage is self.storage and len(self.storage.writes) == self.writes


class FromData:
    """In the place of a path: a float that only the data of a tensor tells, a 0-d tensor of the graph."""

    __slots__ = ("stack", "tensor")

    def __init__(self, tensor: Any, stack: Any) -> None:
        self.tensor = tensor
        self.stack = stack  # where the program made it


def depends_on_data(arg: Any) -> bool:
    """Whether something that a float is made of has no value before the graph has run."""
    kind = type(arg)
    if kind is TracedFloat:
        return bool(arg.from_data)
    return kind is FromData or (kind is TracedInt and arg.symbols.is_unbacked(arg))


class Floats:
    """The symbolic floats of one capture."""

    def __init__(
        self, guards: Any, origin: Callable[[], Any], input: Callable[[TracedFloat, torch.dtype], Any]
    ) -> None:
        self.guards = guards
        self.origin = origin
        self.input = input  # the 0-d tensor of the graph for a float
        self.constants: set[tuple[Path, str, int]] = set()  # floats from outside that were needed as such
        self.doubtful: dict[int, TracedFloat] = {}  # by id: of functions that raise for some numbers, see may_raise
        self.has_ints = True  # the entry function meets ints where these are symbolic, not symbols of torch
        self.conditions: list[tuple[str, Any, Any, bool]] | None = None  # for the entry function to check
        self.whole: Callable[[Any, TracedFloat], Any]  # the int that a function makes of a float from data
        self.rounded: Callable[[Operand, TracedFloat], Any]  # the symbolic int that is calculated like this
        self.assume: Callable[[Any, TracedFloat], None]  # that a comparison of a float from data with zero holds
        self.refuse: Callable[[], Exception]  # a float that depends on data is needed as a constant
        self.run: Callable[[str, list[Any], Kind], Any]  # what Python makes of source and operands, in the graph

    def base(self, source: Path | Reading, value: float) -> TracedFloat:
        """A float that is not calculated."""
        return TracedFloat(self, value, None, (source,))

    def calculated(self, function: Any, *args: Any) -> Any:
        """A function of symbolic ints, which may give a symbolic float."""
        return calculated(function, *args)

    def counted(self, function: Any, *args: Any) -> Any:
        """A function of ints that gives an int, a symbolic one if C can calculate it."""
        if not self.has_ints:
            return function(*map(constant, args))
        symbols = next(arg.symbols for arg in args if type(arg) is TracedInt)
        made = int_functions.calculated(symbols, functools.partial(TracedFloat, self), function, args)
        return function(*map(constant, args)) if made is None else made

    def evaluate(self, function: Any, args: tuple[Any, ...], kind: Kind) -> Any:
        """What Python makes of numbers some of which only data tells; constants where that cannot be asked."""
        operands: dict[int, tuple[int, Any]] = {}  # by identity: its place, and the number
        texts = [self._text(arg, operands) for arg in args]
        if None in texts or not operands:
            return function(*map(constant, args))  # raises, as some have no value
        return self.run(source_of(function, cast(Any, texts)), [number for _, number in operands.values()], kind)

    def _text(self, arg: Any, operands: dict[int, tuple[int, Any]]) -> str | None:
        """A number in the source of a calculation; symbolic ones become operands."""
        if type(arg) is TracedBool:
            try:
                return str(fold(arg.expr, Text(lambda symbol: self._operand(arg.symbols.named(symbol), operands))))
            except NoForm:
                return None
        if type(arg) in (list, tuple):
            texts = [self._text(item, operands) for item in arg]
            return None if None in texts else f"[{', '.join(cast(Any, texts))}]"
        return self._operand(arg, operands) if type(arg) in SYMBOLIC else literal(arg)

    def _operand(self, arg: Any, operands: dict[int, tuple[int, Any]]) -> str:
        place, _ = operands.setdefault(id(arg), (len(operands), arg))
        return f"a{place}"

    def relation(self, operand: Operand, code: tuple[int, ...], text: str) -> None:
        self.guards.relation(Relation((operand,), code, text), self.origin())


MIXED = "max or min of an int and a float is one or the other, as data tells: write both as floats (1.0 for 1)"


class TracedFloat:
    """A symbolic float: its value now, and the function and arguments that give it; no function: where it lies."""

    __slots__ = ("args", "floats", "from_data", "function", "mixed", "tensors", "value")

    def __init__(self, floats: Floats, value: float, function: Any, args: tuple[Any, ...]) -> None:
        self.floats = floats
        self.value = value
        self.function = function
        self.args = args
        self.from_data = any(map(depends_on_data, args))  # the value is nan then
        self.mixed = self.from_data and function in (max, min) and any(map(_may_be_int, args))  # an int, or a float
        self.tensors: dict[torch.dtype, Any] = {}

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    @property
    def path(self) -> Path | None:
        """Where it lies outside."""
        return self.args[0] if self.function is None and type(self.args[0]) is Path else None

    @property
    def source(self) -> Any:
        """The tensor that it was read from, if that still has the number."""
        reading = self.args[0] if self.function is None else None
        return reading.tensor if type(reading) is Reading and reading.is_current() else None

    def tensor(self, dtype: torch.dtype = torch.float64) -> Any:
        """The 0-d tensor of the graph that has its value."""
        if dtype not in self.tensors:
            self.tensors[dtype] = self.floats.input(self, dtype)
        return self.tensors[dtype]

    def decay(self) -> float:
        """The value, guarded to be the same in the next call."""
        pending, seen = [self], {id(self)}
        while pending:
            this = pending.pop()
            self.floats.doubtful.pop(id(this), None)
            for arg in (this.function.side(),) if type(this.function) is Alternatives else this.args:
                if type(arg) is TracedFloat and id(arg) not in seen:
                    seen.add(id(arg))
                    pending.append(arg)
                elif type(arg) is TracedInt:
                    if self.mixed:
                        raise unsupported("data-dependent-value", MIXED, function="Python")
                    arg.decay()
                elif type(arg) is Path:
                    self.floats.guards.add(arg, EQ, this.value, self.floats.origin())
                    self.floats.constants.add((arg, "float", 0))
                elif type(arg) is Reading:
                    raise self.floats.refuse()
                elif type(arg) is FromData:
                    detail = MIXED if self.mixed else "its value is needed before the graph has run"
                    raise unsupported("data-dependent-value", detail, stack=arg.stack, function="Python")
        return self.value

    def __pos__(self) -> Any:
        return self

    def __hash__(self) -> int:
        return hash(self.decay())

    def __bool__(self) -> bool:
        return bool(operator.ne(self, 0))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (self.decay(),)

    def __round__(self, digits: Any = None) -> Any:
        return whole(round, self) if digits is None else calculated(round, self, digits)

    def __int__(self) -> Any:
        return whole(int, self)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return _operation(operator.pow, self, other)
        return pow(self.decay(), constant(other), constant(modulus))

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if type(other) in NUMBERS else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if type(other) in NUMBERS else NotImplemented

    def is_integer(self) -> Any:
        if self.from_data:
            return self.floats.evaluate(float.is_integer, (self,), CONDITION)
        if not abs(self.value) < _LARGEST:
            return self.decay().is_integer()
        return self == whole(int, self)


def _may_be_int(value: Any) -> bool:
    return value.mixed if type(value) is TracedFloat else type(value) is not float


TracedFloat.__name__ = "float"  # in messages of C code


def constant(value: Any) -> Any:
    """What native code may see of a value."""
    return value.decay() if type(value) in (TracedFloat, TracedInt, TracedBool) else value


def now(value: Any) -> Any:
    """The value in this call, without a guard."""
    if type(value) is TracedInt:
        return math.nan if value.symbols.is_unbacked(value) else value.symbols.unknowns.hint(value.number)
    return value.value if type(value) is TracedFloat else value


SYMBOLIC = frozenset({TracedInt, TracedFloat})
NUMBERS = frozenset({int, float, bool, TracedInt, TracedFloat})


def floats_of(args: tuple[Any, ...]) -> Any:
    """The symbolic floats that an expression would belong to; None if there can be none."""
    found = None
    for arg in args:
        if type(arg) is TracedFloat:
            found = arg.floats
        elif type(arg) is TracedInt:
            if arg.symbols.unknowns.hint(arg.number) is None and not arg.symbols.is_unbacked(arg):
                return None
            found = found or arg.symbols.floats
    return found


# Functions that torch calculates exactly as Python does, so that they may be part of a graph.
IN_GRAPH = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, abs, float, max, min, math.sqrt}
)
_FROM_DATA = IN_GRAPH
_OF_ONE_TYPE = frozenset(
    {operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.pow, operator.neg, abs, round}
)  # of ints they give ints


def _is_mixed(value: Any) -> bool:
    return type(value) is TracedFloat and value.mixed


def calculated(function: Any, *args: Any) -> Any:
    """A function of symbolic numbers; what gives no float, or raises, takes constants."""
    floats = floats_of(args) if all(type(arg) in NUMBERS for arg in args) else None
    data = any(map(depends_on_data, args))
    if data and function in _OF_ONE_TYPE and any(map(_is_mixed, args)) and all(map(_may_be_int, args)):
        return function(*map(constant, args))  # whether it is an int is not known
    if data and floats is not None and function not in _FROM_DATA:
        return floats.evaluate(function, args, FLOAT)
    if function is operator.truediv and depends_on_data(args[1]):  # Python raises for zero
        if type(args[1]) is not TracedInt:
            args[1].floats.assume(torch.ne, args[1])
        else:
            args[1].symbols.assume(args[1] != 0)
    elif data and function is operator.truediv and not bool(args[1]):
        known = type(args[0]) is TracedFloat and not args[0].mixed  # whatever it is, Python says the same
        return function(0.0 if known else constant(args[0]), constant(args[1]))
    if function is math.sqrt and depends_on_data(args[0]):
        if type(args[0]) is not TracedInt:
            args[0].floats.assume(torch.ge, args[0])
        else:
            args[0].symbols.suppose(operator.ge, args[0], 0)
    if floats is not None:
        try:
            value = math.nan if data else function(*map(now, args))
        except Exception:
            value = None
        if type(value) is float:
            made = TracedFloat(floats, value, function, args)
            if not made.from_data and may_raise(function, args):
                floats.doubtful[id(made)] = made
            return made
    return function(*map(constant, args))


def _is_read(number: TracedFloat) -> bool:
    """Whether it depends on what is read from tensors before the graph runs."""
    return any(type(arg) is Reading or (type(arg) is TracedFloat and _is_read(arg)) for arg in number.args)


def stage_after(number: TracedFloat) -> int:
    """The stage of readings in which all that a number is calculated of is known."""
    pending, seen, stage = [number], {id(number)}, 0
    while pending:
        for arg in pending.pop().args:
            if type(arg) is Reading:
                stage = max(stage, arg.stage + 1)
            elif type(arg) is TracedFloat and id(arg) not in seen:
                seen.add(id(arg))
                pending.append(arg)
    return stage


def whole(function: Any, number: TracedFloat) -> Any:
    """The int that a function makes of a float: a symbol, or guarded by the ints around it."""
    if number.from_data or _is_read(number):
        return number.floats.whole(function, number)
    made = ratios.whole(function, number)
    if made is None:
        made = roundings.rounded(function, number)
    if made is None:
        made = stairs.counted(function, number)
    if made is not None:
        return made
    value = number.value
    if not abs(value) < _LARGEST or function not in roundings.WITHIN:
        return function(number.decay())
    made = function(value)
    for name, bound in roundings.WITHIN[function](made, value):
        if not getattr(number, f"__{name}__")(float(bound)):
            return function(number.decay())
    return made


_LARGEST = roundings.LARGEST


# ---- operators ------------------------------------------------------------------------------------


def _operation(function: Any, left: Any, right: Any) -> Any:
    other = right if type(left) is TracedFloat else left
    if type(other) in NUMBERS:
        return calculated(function, left, right)
    known = type(other) is complex or is_derived(type(other))
    return function(constant(left), constant(right)) if known else NotImplemented


def _arithmetic(name: str) -> None:
    function = getattr(operator, name)
    if name != "pow":
        setattr(TracedFloat, f"__{name}__", lambda self, other: _operation(function, self, other))
    setattr(TracedFloat, f"__r{name}__", lambda self, other: _operation(function, other, self))


_SIDES = {  # of comparisons that hold, and of those that do not: where the float lies, above 0, at it, or below
    ("lt", True): (("EQ", -1),),
    ("ge", False): (("EQ", -1),),
    ("gt", True): (("EQ", 1),),
    ("le", False): (("EQ", 1),),
    ("le", True): (("LE", 0),),
    ("gt", False): (("LE", 0),),
    ("ge", True): (("GE", 0), ("LE", 1)),  # a nan is at 2
    ("lt", False): (("GE", 0), ("LE", 1)),
    ("eq", True): (("EQ", 0),),
    ("ne", False): (("EQ", 0),),
}


def _guard_side(number: TracedFloat, bound: float, rows: tuple[tuple[str, int], ...]) -> None:
    """Guards the side of a number on which a float from outside lies."""
    assert number.path is not None
    for name, side in rows:
        code = (RELATION_OPS["LOAD"], 0, RELATION_OPS["CONST"], side, RELATION_OPS[name], 0)
        text = f"{{0}} {COMPARISONS[name.lower()]} {side}"
        number.floats.relation(Operand(number.path, SIDE, bound=bound), code, text)


def _guard_other(number: TracedFloat, bound: float) -> None:
    """Guards that a float from outside is another one than this."""
    code = (RELATION_OPS["LOAD"], 0, RELATION_OPS["CONST"], 0, RELATION_OPS["NE"], 0)
    assert number.path is not None
    number.floats.relation(Operand(number.path, SIDE, bound=bound), code, "{0} != 0")


def _comparison(name: str) -> None:
    """A comparison of a float from outside with a constant is guarded by its side, others by a relation."""
    function = getattr(operator, name)

    def compare(self: TracedFloat, other: Any) -> Any:
        if type(other) is complex and name in ("eq", "ne"):  # which a float leaves to the complex number
            return function(self.decay(), other)
        if type(other) not in NUMBERS:
            return getattr(float, f"__{name}__")(self.decay(), constant(other))
        if type(self.function) is Alternatives:
            return function(self.function.side(), other)
        if self.path is None or type(other) not in (int, float) or not _is_bound(other) or self.value != self.value:
            return _decided(name, self, other)
        holds = bool(function(self.value, other))
        if name in ("eq", "ne") and self.value != other:
            _guard_other(self, float(other))
        else:
            _guard_side(self, float(other), _SIDES[name, holds])
        return holds

    setattr(TracedFloat, f"__{name}__", compare)


def _decided(name: str, self: TracedFloat, other: Any) -> Any:
    """A comparison that C repeats in the next call; of constants if it cannot."""
    method = getattr(float, f"__{name}__")
    if depends_on_data(self) or depends_on_data(other):
        return self.floats.evaluate(getattr(operator, name), (self, other), CONDITION)
    result = bool(method(self.value, now(other)))
    try:
        if name in ("eq", "ne") and other is not self and _are_outside(self, other):
            _decided("eq", self, self)  # it is no nan, which containers take to be equal to the same object
        relation = Condition().relation(name, self, other, result)
    except Certain:
        return result
    except NoCondition:
        if self.floats.conditions is None:
            return bool(method(self.decay(), constant(other)))
        self.floats.conditions.append((name, self, other, result))
        return result
    self.floats.guards.relation(relation, self.floats.origin())
    return result


def _are_outside(*numbers: Any) -> bool:
    """Whether these are floats from outside, as they are."""
    return all(type(number) is TracedFloat and number.path is not None for number in numbers)


def _is_bound(other: Any) -> bool:
    """Whether a number is a float exactly, and finite."""
    return (type(other) is int or other - other == 0) and abs(other) <= _LARGEST


def _native(name: str) -> None:
    method = getattr(float, name)

    def decay(self: TracedFloat, *args: Any) -> Any:
        return method(self.decay(), *map(constant, args))

    setattr(TracedFloat, name, decay)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _arithmetic(_name)
for _name, _function in cast(Any, (("neg", operator.neg), ("abs", abs))):
    setattr(TracedFloat, f"__{_name}__", lambda self, function=_function: calculated(function, self))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)
for _name, _function in cast(Any, (("floor", math.floor), ("ceil", math.ceil), ("trunc", int))):
    setattr(TracedFloat, f"__{_name}__", lambda self, function=_function: whole(function, self))
for _name in (
    "__float__", "__str__", "__repr__", "__format__", "as_integer_ratio", "hex", "conjugate",
):  # fmt: skip
    _native(_name)


# ---- math -----------------------------------------------------------------------------------------


# Functions of floats that give a float.
_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees erf erfc exp exp2 expm1 fabs fmod gamma hypot
ldexp lgamma log log10 log1p log2 nextafter pow radians remainder sin sinh sqrt tan tanh ulp
"""
MATH = frozenset(getattr(math, name) for name in _MATH.split())


def is_nan(number: TracedFloat) -> Any:
    """Whether it is nan, guarded; a nan is on no side of anything."""
    if number.from_data:
        return number.floats.evaluate(math.isnan, (number,), CONDITION)
    if number.path is None or number.value != number.value:
        return math.isnan(number.decay())
    code = (RELATION_OPS["LOAD"], 0, RELATION_OPS["CONST"], 2, RELATION_OPS["NE"], 0)
    number.floats.relation(Operand(number.path, SIDE), code, "{0} != 2")
    return False


def is_finite(number: TracedFloat) -> Any:
    """Whether it is neither nan nor infinite, guarded."""
    if number.from_data:
        return number.floats.evaluate(math.isfinite, (number,), CONDITION)
    if number.path is None or not math.isfinite(number.value):
        return math.isfinite(number.decay())
    for bound in (math.inf, -math.inf):
        _guard_other(number, bound)
    return True


def is_infinite(number: TracedFloat) -> Any:
    """Whether it is infinite, guarded."""
    if number.from_data:
        return number.floats.evaluate(math.isinf, (number,), CONDITION)
    return not is_finite(number) if math.isfinite(number.value) else math.isinf(number.decay())


QUESTIONS: dict[Any, Callable[[TracedFloat], Any]] = {
    math.isnan: is_nan,
    math.isfinite: is_finite,
    math.isinf: is_infinite,
}
