"""The stand-in for an int whose value may change from call to call.

It lives in the interpreter and in torch calls. Python code sees an int; C code that needs the number gets it through
one of the methods below, and from then on the number is a guarded constant. A number that only the data of a tensor
tells has no value yet: where one is needed, capture ends.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.bits import BITS, is_one_step
from stator.shapes.calculations import INT, INT_MATH, Kind

if TYPE_CHECKING:
    from stator.shapes.polynomial import Polynomial
    from stator.shapes.symbols import Symbols


class TracedInt(torch.SymInt):
    """A symbolic int; `number` is what it is, `plain` what torch calculates with."""

    __slots__ = ("number", "symbols")

    number: Polynomial
    symbols: Symbols

    def __init__(self, number: Polynomial, symbols: Symbols) -> None:
        self.number = number
        self.symbols = symbols

    @property
    def plain(self) -> torch.SymInt:
        return self.symbols.plain(self.number)

    @property
    def node(self) -> Any:
        return self.plain.node

    @property
    def expr(self) -> Any:
        """The expression, by what is known now."""
        return self.symbols.expr(self.number)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def decay(self) -> int:
        """The value, guarded to be the same in the next call."""
        return self.symbols.decay(self)

    def __hash__(self) -> int:
        return hash(self.decay())

    def __bool__(self) -> bool:
        return bool(self.symbols.compare(operator.ne, self, 0))

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return self.symbols.compute(operator.neg, self)

    def __abs__(self) -> Any:
        if self.symbols.is_unbacked(self):
            return self.symbols.compute(torch.sym_max, self, -self)
        if (known := self.symbols.settled(operator.ge, self, 0)) is not None:
            return self if known else -self
        return self.symbols.compute(torch.sym_max, self, -self)

    def __invert__(self) -> Any:
        return -self - 1

    def __divmod__(self, other: Any) -> Any:
        known = type(other) in INTS or type(other) is float
        return (self // other, self % other) if known else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        known = type(other) in INTS or type(other) is float
        return (other // self, other % self) if known else NotImplemented

    def __round__(self, digits: Any = None) -> Any:
        if digits is None or (type(digits) is int and digits >= 0):
            return self
        return evaluated(round, (self, digits), INT) if from_data(self, digits) else round(self.decay(), number(digits))

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None and type(other) is int and 0 <= other <= LARGEST_POWER:
            return self.symbols.compute(operator.pow, self, other)
        given = (self, other) if modulus is None else (self, other, modulus)
        if from_data(*given) and all(type(part) in INTS for part in given):
            return _power(*given)
        if modulus is None and type(other) in (int, float):
            return _calculated(operator.pow, self, other)
        if type(other) not in INTS:
            return NotImplemented
        if modulus is None and type(other) is TracedInt:
            return _raised(self, other)
        return pow(self.decay(), *(number(part) for part in (other, modulus) if part is not None))

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None and from_data(self) and type(other) in INTS:
            return _power(other, self)
        if modulus is None and type(other) is int:
            return _raised(other, self)
        return _calculated(operator.pow, other, self) if modulus is None else NotImplemented

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Only C code that tells types apart gets here."""
        self.symbols.doubt = "a symbolic int was taken apart by C code"
        return int, (self.decay(),)


class TracedBool(torch.SymBool):
    """A condition on numbers that only the data of tensors tells."""

    __slots__ = ("expr", "stack", "symbols")

    def __init__(self, expr: Any, symbols: Symbols, stack: Any) -> None:
        self.expr = expr
        self.symbols = symbols
        self.stack = stack  # where the program asked

    @property
    def plain(self) -> torch.SymBool:
        return self.symbols.condition(self.expr)

    @property
    def node(self) -> Any:
        return self.plain.node

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return bool

    def decay(self) -> bool:
        """There is no value before the graph has run."""
        raise self.symbols.undecided(self.expr, self.stack)

    def whole(self) -> Any:
        """It as an int."""
        return evaluated(int, (self,), Kind(int, 0, 1))

    def opposite(self) -> Any:
        """`not` of it."""
        return self.symbols.truth(~self.expr)

    def __bool__(self) -> bool:
        return self.decay()

    def __hash__(self) -> int:
        return hash(self.decay())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return bool, (self.decay(),)


def identical(left: Any, right: Any) -> Any:
    """`left is right`: there are two bools, and one int for each small number; NotImplemented where objects tell."""
    if type(left) is TracedBool or type(right) is TracedBool:
        one, other = (left, right) if type(left) is TracedBool else (right, left)
        if type(other) is bool:
            return one if other else one.opposite()
        return left is right or left == right if type(other) is TracedBool else False
    if type(left) is TracedInt and type(right) is int and right in SMALL_INTS:
        return left == right
    return right == left if type(right) is TracedInt and type(left) is int and left in SMALL_INTS else NotImplemented


SMALL_INTS = range(-5, 257)  # that CPython makes once
LARGEST_POWER = 8


TracedInt.__name__, TracedBool.__name__ = "int", "bool"  # in messages of C code


def number(value: Any) -> Any:
    """What native code may see of a value: a symbolic int as a guarded constant."""
    return value.decay() if type(value) in (TracedInt, TracedBool) else value


def wrapped(value: Any) -> Any:
    """What the captured program may see of a symbolic number that torch made."""
    if type(value) is torch.SymFloat:
        return float(value)  # a number from data raises here
    return value if type(value) is int else value.node.shape_env.symbols.wrap(value)


INTS = frozenset({int, bool, TracedInt, torch.SymInt})
NUMBERS = frozenset({float, complex})


def is_derived(kind: type) -> bool:
    """Whether objects of a class are numbers of a kind of their own, such as members of an IntEnum."""
    return issubclass(kind, (int, float, complex)) and kind not in INTS and kind not in NUMBERS


def from_data(*values: Any) -> bool:
    """Whether some of these are ints or conditions that only data tells."""
    return any(
        kind is TracedBool or (kind is TracedInt and value.symbols.is_unbacked(value))
        for value in values
        if (kind := type(value))
    )


def evaluated(function: Any, args: tuple[Any, ...], kind: Kind) -> Any:
    """What a function of Python makes of numbers some of which only data tells; the graph asks Python."""
    symbols = next(arg.symbols for arg in args if type(arg) in (TracedInt, TracedBool))
    return symbols.floats.evaluate(function, args, kind)


def _power(base: Any, exponent: Any, *modulus: Any) -> Any:
    """A power of ints: an int if the exponent is not negative, which is assumed unless its sign is known."""
    if not modulus and type(exponent) is int:
        return base.symbols.floats.calculated(operator.pow, base, exponent)
    if not modulus and type(exponent) is TracedInt:
        exponent.symbols.suppose(operator.ge, exponent, 0)
    return evaluated(pow, (base, exponent, *modulus), INT)


def _raised(base: Any, exponent: TracedInt) -> Any:
    """A power of ints whose exponent changes, which is an int unless that is negative."""
    if exponent >= 0:
        return exponent.symbols.floats.counted(operator.pow, base, exponent)
    return _calculated(operator.pow, base, exponent)


def _divides(function: Any, left: Any, right: Any) -> bool:
    """Division by zero is left to Python, which raises."""
    if function not in (operator.floordiv, operator.mod):
        return True
    condition = right != 0
    if type(condition) is TracedBool:
        condition.symbols.assume(condition.expr)  # where it does not hold, CPython runs the call and raises
        return True
    return bool(condition)


def _arithmetic(name: str) -> None:
    function = getattr(operator, name)

    def forward(self: TracedInt, other: Any) -> Any:
        if type(other) in INTS and _divides(function, self, other):
            return self.symbols.compute(function, self, other)
        return _calculated(function, self, other)

    def reflected(self: TracedInt, other: Any) -> Any:
        if type(other) in INTS and _divides(function, other, self):
            return self.symbols.compute(function, other, self)
        return _calculated(function, other, self)

    setattr(TracedInt, f"__{name}__", forward)
    setattr(TracedInt, f"__r{name}__", reflected)


def _decayed(function: Any, left: Any, right: Any) -> Any:
    kinds = {type(left), type(right)}
    if any(kind not in INTS and kind not in NUMBERS and not is_derived(kind) for kind in kinds):
        return NotImplemented
    return function(number(left), number(right))


def _combined(function: Any, left: Any, right: Any) -> Any:
    """An operation on bits, of which Python asks both numbers."""
    if from_data(left, right) and all(type(side) in INTS for side in (left, right)):
        masks = [side for side in (left, right) if type(side) is int and side >= 0]
        return evaluated(
            function, (left, right), Kind(int, 0, masks[0]) if function is operator.and_ and masks else INT
        )
    if all(type(side) in (int, TracedInt) for side in (left, right)):
        symbols = (left if type(left) is TracedInt else right).symbols
        return symbols.floats.counted(function, left, right)
    return _decayed(function, left, right)


def _calculated(function: Any, left: Any, right: Any) -> Any:
    """A result that may be a float, which is symbolic too."""
    other, self = (right, left) if type(left) is TracedInt else (left, right)
    if type(other) is complex or is_derived(type(other)):
        return function(number(left), number(right))
    if type(other) not in INTS and type(other) is not float:
        return NotImplemented
    return self.symbols.floats.calculated(function, left, right)


def _division(name: str) -> None:
    function = getattr(operator, name)
    setattr(TracedInt, f"__{name}__", lambda self, other: _calculated(function, self, other))
    setattr(TracedInt, f"__r{name}__", lambda self, other: _calculated(function, other, self))


def _of_bits(name: str) -> None:
    """Operators that are arithmetic for a constant on the right, or on either side."""
    function = getattr(operator, name.strip("_"), None) or getattr(operator, name)
    same = BITS[function]

    def forward(self: TracedInt, other: Any) -> Any:
        is_followed = type(other) is int and (is_one_step(function, other) or not from_data(self))
        made = same(self, other) if is_followed else None
        return _combined(function, self, other) if made is None else made

    def reflected(self: TracedInt, other: Any) -> Any:
        if name in ("lshift", "rshift"):
            return _combined(function, other, self)
        return forward(self, other)

    setattr(TracedInt, f"__{name.strip('_')}__", forward)
    setattr(TracedInt, f"__r{name.strip('_')}__", reflected)


def _beside(function: Any, left: TracedInt, right: float) -> Any:
    """A comparison with a float is one with the whole number next to it."""
    if not math.isfinite(right):
        return function(0, right)
    if function in (operator.eq, operator.ne) and not right.is_integer():
        return function is operator.ne
    whole = math.ceil if function in (operator.lt, operator.ge) else math.floor
    return left.symbols.compare(function, left, whole(right))


def _comparison(name: str) -> None:
    function = getattr(operator, name)

    def compare(self: TracedInt, other: Any) -> Any:
        if type(other) in INTS:
            return self.symbols.compare(function, self, other)
        if type(other) is float:
            return _beside(function, self, other)
        return _decayed(function, self, other)

    setattr(TracedInt, f"__{name}__", compare)


def _logic(name: str) -> None:
    """Conditions combined without a branch."""
    function = getattr(operator, name)

    def combine(self: TracedBool, other: Any) -> Any:
        if type(other) is bool or type(other) is TracedBool:
            return self.symbols.combined(function, self, other)
        return function(self.whole(), other) if type(other) in INTS else NotImplemented

    setattr(TracedBool, f"__{name.strip('_')}__", combine)
    setattr(TracedBool, f"__r{name.strip('_')}__", combine)


def _counted(name: str) -> None:
    """What a bool does as the int that it is."""
    function = getattr(operator, name)

    def forward(self: TracedBool, *others: Any) -> Any:
        if all(type(other) in OPERANDS for other in others):
            return function(self.whole(), *(other.whole() if type(other) is TracedBool else other for other in others))
        return NotImplemented

    def reflected(self: TracedBool, other: Any) -> Any:
        return function(other, self.whole()) if type(other) in OPERANDS else NotImplemented

    setattr(TracedBool, f"__{name}__", forward)
    if name in _REFLECTED:
        setattr(TracedBool, f"__r{name}__", reflected)


OPERANDS = INTS | {float, TracedBool}
_REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")


def _xor(self: TracedBool, other: Any) -> Any:
    """Of two conditions: whether they differ."""
    if type(other) is bool:
        return self.opposite() if other else self
    if type(other) is TracedBool:
        return self != other
    return self.whole() ^ other if type(other) in INTS else NotImplemented


def _undecided(name: str) -> Any:
    """What a bool does by itself once its value is needed."""
    method = getattr(int if name in ("__float__", "__int__", "__index__") else bool, name)
    return lambda self, *args: method(self.decay(), *map(number, args))


def _native(name: str) -> None:
    """What an int does by itself once its value is needed."""
    method = getattr(int, name)

    def decay(self: TracedInt, *args: Any, **kwargs: Any) -> Any:
        if method in INT_MATH and from_data(self):
            return evaluated(method, (self,), INT_MATH[method])
        if method in INT_MATH:
            return self.symbols.floats.counted(method, self)
        return method(self.decay(), *map(number, args), **kwargs)

    setattr(TracedInt, name, decay)


def _itself(name: str) -> None:
    setattr(TracedInt, name, lambda self: self)


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _arithmetic(_name)
_division("truediv")
for _name in ("lshift", "rshift", "and_", "or_", "xor"):
    _of_bits(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)
for _name in (
    "__index__", "__int__", "__float__", "__str__", "__repr__", "__format__", "__sizeof__",
    "bit_length", "bit_count", "to_bytes", "as_integer_ratio",
):  # fmt: skip
    _native(_name)
for _name in ("and_", "or_"):
    _logic(_name)
for _name in (
    *_REFLECTED, "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert",
):  # fmt: skip
    _counted(_name)
for _name in ("__index__", "__int__", "__float__", "__str__", "__repr__", "__format__"):
    setattr(TracedBool, _name, _undecided(_name))
setattr(TracedBool, "__xor__", _xor)  # noqa: B010 - as the others
setattr(TracedBool, "__rxor__", _xor)  # noqa: B010
for _name in ("__trunc__", "__floor__", "__ceil__", "conjugate"):
    _itself(_name)
for _name in ("real", "numerator"):
    setattr(TracedInt, _name, property(lambda self: self))
