"""How symbolic ints behave under the interpreter; in place only once a capture has symbols."""

from __future__ import annotations

import abc
import collections
import datetime
import decimal
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable
from typing import Any, cast

import torch

from stator import _entry, _frames
from stator.frame import Frame
from stator.guards.check import LEN, TYPE_IS
from stator.native.attribute_rows import READERS, WRITERS
from stator.native.callers import LruCache
from stator.native.host import Host
from stator.native.rows import OVERRIDES, STANDINS
from stator.runtime import pinning, unrolling
from stator.runtime.assumptions import told
from stator.runtime.random_state import GeneratorMethod
from stator.shapes import polynomial
from stator.shapes.calculations import FLOAT, INT_MATH, distance_of, sum_of
from stator.shapes.floats import MATH, QUESTIONS, SYMBOLIC, TracedFloat, calculated, depends_on_data, whole
from stator.shapes.guesses import is_next
from stator.shapes.scalar import INTS, SMALL_INTS, TracedBool, TracedInt, evaluated, from_data, identical, is_derived
from stator.shapes.symbols import number_of
from stator.shapes.texts import TracedText
from stator.tensors import doubts
from stator.tensors.traced import TracedTensor
from stator.world.door import IMPORTERS, constant, enter_unequal, is_structure
from stator.world.exceptions import C_FIELDS, KEPT

Caller = Callable[[Any, Frame, list[Any]], Any]


def start(host: Any) -> None:
    """From now on calls and identity tests look for symbols among their operands."""
    host.call = types.MethodType(call, host)
    host.same = types.MethodType(same, host)


def same(host: Any, left: Any, right: Any) -> Any:
    """`left is right`: small ints are one object each, other numbers and texts must be constants to tell."""
    answer = identical(left, right)
    if answer is not NotImplemented:
        return answer
    if type(left) is type(right) is TracedTensor and host.recorder.doubts.may_be_one(left, right):
        doubts.ask()
    kinds = VALUES.get(type(left)), VALUES.get(type(right))
    if kinds == (None, None) or (kinds[0] or type(left)) is not (kinds[1] or type(right)):
        return Host.same(host, left, right)
    if left is right:
        return True
    if int in kinds:
        return bool(left == right) and are_one(host, left)
    left, right = (value.decay() if kind else value for value, kind in zip((left, right), kinds, strict=True))
    return Host.same(host, left, right)


def are_one(host: Any, number: Any) -> bool:
    """Whether two ints of this value are one object."""
    if bool(number >= SMALL_INTS[0]) and bool(number <= SMALL_INTS[-1]):
        return True
    detail = "whether two equal ints are one object is known where they are"
    raise host.refuse("symbolic-value", detail, function="is")


def call(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A call: C code is given numbers, unless it only moves its arguments or works through their operators."""
    given, kept = args, False
    known = pinning.constants(host) if host.counts_rounds else None
    if not runs_python(function):
        row = row_of(function)
        answer = NotImplemented if row is None or kwargs else row(host, f, args)
        if answer is not NotImplemented:
            return answer
        makes_class = function is type and len(args) > 1
        args = args if moves(function) and not makes_class else [without_text(arg) for arg in args]
        kwargs = kwargs and {name: without_text(arg) for name, arg in kwargs.items()}
        if type(function) is types.BuiltinFunctionType and function in SURFACE and not kwargs:
            args = [arg.decay() if type(arg) in STANDS_FOR else arg for arg in args]
        elif not (kept := keeps(host, function) and not gives_to_c(host, function, args)):
            seen: dict[int, Any] = {}
            args = [decayed(host, arg, seen) for arg in args]
            kwargs = {name: decayed(host, arg, seen) for name, arg in kwargs.items()} if kwargs else kwargs
    elif isinstance(function, type) and reads_texts(function):
        args = [without_text(arg) for arg in args]
        kwargs = kwargs and {name: without_text(arg) for name, arg in kwargs.items()}
    asker, host.asker_keeps = host.asker_keeps, kept
    try:
        if not host.counts_rounds:
            return Host.call(host, f, function, args, kwargs)
        before, made = unrolling.stamp(host), Host.call(host, f, function, args, kwargs)
    finally:
        host.asker_keeps = asker
    unrolling.note(host, f, function, given, made, before)
    if known is not None and host.recorder.takes(function):
        pinning.note(host, f, [*given, *(kwargs or {}).values()], made, known)
    return made


def operands(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of an operator: next to numbers of classes whose C code knows no stand-ins, there are none."""
    given = set(map(type, args))
    if STANDS_FOR.keys().isdisjoint(given) or not any(
        issubclass(kind, C_NUMBERS) or is_derived(kind) for kind in given
    ):
        return args
    return tuple(arg.decay() if type(arg) in STANDS_FOR else arg for arg in args)


STARTS_PYTHON = frozenset({types.FunctionType, _entry.Compiled, LruCache, torch.jit.ScriptFunction})


def runs_python(function: Any) -> bool:
    """Whether calling it starts a Python function, or makes an instance of a Python class."""
    kind = type(function)
    if kind in STARTS_PYTHON:
        return True
    if kind is types.MethodType:
        return runs_python(function.__func__)
    if isinstance(function, type):
        return _frames.is_heap_type(function)
    return _frames.is_heap_type(kind) and type(_frames.type_lookup(kind, "__call__")) is types.FunctionType


def row_of(function: Any) -> Caller | None:
    """The row for a function that has an answer of its own for symbolic ints."""
    kind = type(function)
    if kind is types.BuiltinFunctionType and type(function.__self__) is torch.Size and function.__name__ == "numel":
        return lambda host, f, args: math.prod(function.__self__)
    if kind is types.BuiltinFunctionType and type(function.__self__) is str and function.__name__ in STR_METHODS:
        return lambda host, f, args: STR_METHODS[function.__name__](function.__self__, args)
    return ROWS.get(function) if kind in ROW_KINDS else None


def decayed(host: Any, value: Any, seen: dict[int, Any]) -> Any:
    """A value as C code may see it: no symbolic int in it, nor in the containers and instances below."""
    kind = type(value)
    if kind in STANDS_FOR:
        return value.decay()
    if kind in ATOMS or id(value) in seen:
        return value
    seen[id(value)] = host.settled(value)
    if issubclass(type(value), tuple):
        items = [decayed(host, item, seen) for item in tuple.__iter__(value)]
        if all(map(operator.is_, items, tuple.__iter__(value))):
            return value
        return kind(items) if kind is torch.Size or is_structure(kind) else tuple.__new__(kind, items)
    if issubclass(type(value), list):
        for i, item in enumerate(list.__iter__(value)):
            if (now := decayed(host, item, seen)) is not item:
                list.__setitem__(value, i, now)
    elif issubclass(type(value), dict):
        decay_items(host, value, seen)
    elif (fields := _frames.instance_dict(value)) and not issubclass(type(value), (type, types.ModuleType)):
        decay_items(host, fields, seen)
    return value


def decay_items(host: Any, items: dict[Any, Any], seen: dict[int, Any]) -> None:
    for key, item in list(dict.items(items)):
        if (now := decayed(host, item, seen)) is not item:
            dict.__setitem__(items, key, now)


ATOMS = frozenset({int, str, float, bool, bytes, complex, type(None), TracedTensor, types.FunctionType})
KEEPING_TYPES = frozenset(
    {list, tuple, dict, set, frozenset, zip, map, filter, enumerate, reversed, slice, property, type, super, object}
    | {torch.Size, bool, types.SimpleNamespace}
    | {collections.OrderedDict, collections.defaultdict, collections.deque}
    | {member for member in vars(itertools).values() if isinstance(member, type)}
)
APPLYING = frozenset({map, filter, itertools.starmap, itertools.filterfalse, itertools.takewhile, itertools.dropwhile})
GETTERS = frozenset({operator.itemgetter, operator.attrgetter, operator.methodcaller})
POLITE = frozenset({int, float, bool, str, list, tuple, set, len, abs, repr, hash, sum, max, min, iter, next, sorted})
KEEPING_OWNERS = frozenset(
    {list, tuple, dict, set, TracedTensor, torch.Size, torch.Generator}
    | {collections.OrderedDict, collections.defaultdict, collections.deque}
)
KEEPING = frozenset(
    {len, max, min, sum, abs, round, sorted, any, all, iter, next, id, callable, divmod, pow}
    | {math.prod, math.floor, math.ceil}
)
KEEPING_CALLABLES = GETTERS | {functools.partial, GeneratorMethod}
SURFACE = frozenset({len, isinstance})  # what is in their arguments is none of their business
DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)
KEEPING_MODULES = frozenset({"_operator", "_functools", "itertools", "_collections", "_bisect", "_heapq"})


def keeps(host: Any, function: Any) -> bool:
    """Whether something made in C may be given symbolic ints."""
    kind = type(function)
    if isinstance(function, type):
        return function in KEEPING_TYPES or function.__module__.startswith("torch")
    if kind in KEEPING_CALLABLES:
        return True
    if kind is types.MethodWrapperType:
        return function.__objclass__ in KEEPING_OWNERS or function.__name__ in OVERRIDES
    if kind is types.BuiltinFunctionType:
        owner = function.__self__
        if isinstance(owner, type) and function.__name__ == "__new__":
            return owner in KEEPING_TYPES
        if owner is not None and not isinstance(owner, types.ModuleType):
            return home_of(owner, function) in KEEPING_OWNERS or bool(host.recorder.takes(function))
        if function in KEEPING or function.__module__ in KEEPING_MODULES or function in STANDINS:
            return True
    elif kind in DESCRIPTORS:
        if function.__objclass__ in KEEPING_OWNERS or function in STANDINS:
            return True
        if function.__objclass__ is object and function.__name__ in OVERRIDES:
            return True
    return bool(host.recorder.takes(function))


def gives_to_c(host: Any, function: Any, args: list[Any]) -> bool:
    """Whether it hands items on to a function made in C, which is to see numbers and texts."""
    if type(function) is not type or function not in APPLYING or not args or args[0] is None:
        return False
    applied = args[0]
    if runs_python(applied) or host.recorder.takes(applied) or type(applied) in GETTERS or is_polite(applied):
        return False
    if any(_frames.type_lookup(type(arg), "__next__") is not _frames.UNBOUND for arg in args[1:]):
        name = getattr(applied, "__name__", type(applied).__name__)
        raise host.refuse("symbolic-value", "items that come one by one, for a function made in C", function=name)
    return True


def is_polite(function: Any) -> bool:
    """Whether a function made in C works through the methods of what it is given."""
    return type(function) in (type, types.BuiltinFunctionType) and function in POLITE


def moves(function: Any) -> bool:
    """Whether a function made in C does nothing with a text but move it."""
    if isinstance(function, type):
        return function in KEEPING_TYPES
    if type(function) is not types.BuiltinFunctionType:
        return False
    return function is print or function is isinstance or home_of(function.__self__, function) in KEEPING_OWNERS


def reads_texts(cls: type) -> bool:
    """Whether the C code that makes the instances of a class made in Python looks at the texts it is given."""
    made = _frames.type_lookup(cls, "__new__")
    if type(made) is not types.BuiltinFunctionType:
        return False
    owner = cast(type, made.__self__)
    if owner is type or issubclass(owner, READING_ERRORS):
        return True
    return owner not in KEEPING_TYPES and not issubclass(owner, BaseException)


READING_ERRORS = (BaseExceptionGroup, UnicodeError)


def without_text(value: Any) -> Any:
    return value.decay() if type(value) is TracedText else value


def home_of(owner: Any, function: Any) -> type | None:
    """The class that a bound method of C belongs to."""
    name = function.__name__
    return next((base for base in type(owner).__mro__ if type(vars(base).get(name)) in DESCRIPTORS), None)


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
    return NotImplemented


def is_answer(host: Any, function: Any, result: Any) -> bool:
    """Whether a symbol is what `len`, `float`, `int` or `bool` gives; lengths are assumed not to be negative."""
    if type(result) is TracedFloat:
        return function is float and not result.mixed
    if type(result) is TracedBool:
        return function is bool
    if type(result) is not TracedInt or function not in (int, len):
        return False
    if function is len:
        if not from_data(result):  # how many there are in a container: a constant, as of containers that C counts
            return False
        condition = result >= 0
        return told(host, condition, True) if type(condition) is TracedBool else bool(condition)
    return True


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


def contained(container: Any, number: Any) -> Any:
    """Whether a number is one of some others: of what data tells a condition, else guarded by what it equals or not."""
    if not depends_on_data(number):
        base = HASHED.get(_frames.type_lookup(type(container), "__contains__"))  # others compare one by one
        keys = () if base is None or base.__len__(container) > MOST_KEYS else tuple(base.__iter__(container))
        if base is None or not keys or not ATOMS.issuperset(map(type, keys)):
            return NotImplemented
        return any(bool(number == key) for key in keys if type(key) in (int, float, bool))
    if type(container) not in (tuple, list, set, frozenset) or any(type(item) not in MIXED for item in container):
        return NotImplemented
    if any(item is number for item in container):
        return True
    return functools.reduce(operator.or_, [item == number for item in container], False)


C_NUMBERS = (decimal.Decimal, datetime.timedelta)
HASHED: dict[Any, Any] = {vars(kind)["__contains__"]: kind for kind in (dict, set, frozenset)}
MOST_KEYS = 16


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
STR_METHODS: dict[str, Callable[[str, list[Any]], Any]] = {}  # by name, of texts that are known
PLAIN_METACLASSES = frozenset({type, type(torch.Tensor), type(torch.nn.Parameter)})  # a number is no tensor
STANDS_FOR: dict[type, type] = {TracedInt: int, TracedFloat: float, TracedBool: bool}
VALUES: dict[type, type] = {**STANDS_FOR, TracedText: str}


def read_int(host: Any, f: Frame, obj: TracedInt, name: str) -> Any:
    """Attributes of a symbolic int."""
    if name == "__class__":
        return int
    if name in OF_INTS:
        return OF_INTS[name](obj)
    method = getattr(int, name, None)
    if type(method) is types.MethodDescriptorType and method in INT_MATH:
        return functools.partial(getattr(TracedInt, name), obj)
    return host.load_attr(f, obj.decay(), name)


OF_INTS: dict[str, Callable[[Any], Any]] = {
    "real": lambda number: number,
    "numerator": lambda number: number,
    "imag": lambda number: 0,
    "denominator": lambda number: 1,
    "conjugate": lambda number: functools.partial(operator.pos, number),
}


def read_float(host: Any, f: Frame, obj: TracedFloat, name: str) -> Any:
    """Attributes of a symbolic float."""
    if name == "real" and not obj.mixed:
        return obj
    if name == "conjugate" and not obj.mixed:
        return functools.partial(operator.pos, obj)
    if name == "is_integer" and not obj.mixed:
        return functools.partial(TracedFloat.is_integer, obj)
    return host.class_of(obj) if name == "__class__" else host.load_attr(f, obj.decay(), name)


def read_bool(host: Any, f: Frame, obj: TracedBool, name: str) -> Any:
    """Attributes of a symbolic bool."""
    return bool if name == "__class__" else host.load_attr(f, obj.decay(), name)


def write_number(host: Any, f: Frame, obj: TracedInt | TracedFloat | TracedBool, name: str, value: Any) -> None:
    """Numbers take no attributes: the constant raises as they do."""
    host.store_attr(f, obj.decay(), name, value)


def for_field(obj: Any, name: str, value: Any) -> Any:
    """What an attribute is set to: C code that keeps it in a field of its own is given a constant."""
    if type(value) not in VALUES or name in KEPT:
        return value
    field = _frames.type_lookup(type(obj), name)
    return value.decay() if type(field) in C_FIELDS and not _frames.is_heap_type(field.__objclass__) else value


def enter_int(world: Any, obj: int, path: Any) -> Any:
    """An int from outside: a constant, or a symbol if it was seen to change."""
    return enter_number(world, obj, path, world.policy.takes_int)


def enter_number(world: Any, obj: int, path: Any, takes: Callable[[Any, int], bool]) -> Any:
    policy = world.policy
    if (policy.learned or policy.dynamic or is_next(path)) and takes(path, obj):
        world.guards.add(path, TYPE_IS, int, world.origin())
        return world.symbolic_int(path, obj)
    return constant(world, obj, path)


def enter_size(world: Any, obj: torch.Size, path: Any) -> Any:
    """A size from outside: its numbers one by one."""
    world.guards.add(path, TYPE_IS, torch.Size, world.origin())
    world.guards.add(path, LEN, len(obj), world.origin())
    items = [enter_number(world, number, path.item(i), world.policy.takes_part) for i, number in enumerate(obj)]
    return world.identities.enter_parts(obj, path, obj, items, torch.Size)


def enter_float(world: Any, obj: float, path: Any) -> Any:
    """A float from outside: a constant, or an input of the graph if it was seen to change."""
    if not world.policy.learned or not world.policy.takes_float(path, obj):
        return enter_unequal(world, obj, path)
    if obj != obj:
        return world.identities.enter_nan(obj, path, symbolic_float)
    return symbolic_float(world, obj, path)


def symbolic_float(world: Any, obj: float, path: Any) -> Any:
    world.guards.add(path, TYPE_IS, float, world.origin())
    return world.symbolic_float(path, obj)


READERS[id(TracedInt)] = read_int
READERS[id(TracedFloat)] = read_float
READERS[id(TracedBool)] = read_bool
WRITERS.update(dict.fromkeys(map(id, STANDS_FOR), write_number))
IMPORTERS.update({id(int): enter_int, id(float): enter_float, id(torch.Size): enter_size})
