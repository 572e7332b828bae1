"""How symbolic ints behave under the interpreter; in place only once a capture has symbols."""

from __future__ import annotations

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
from stator.native.host import Host
from stator.native.receivers import LruCache
from stator.native.rows import OVERRIDES, STANDINS
from stator.runtime import given_texts, pinning, unrolling
from stator.runtime.assumptions import told
from stator.runtime.number_calls import MIXED, ROW_KINDS, ROWS, STANDS_FOR, Caller
from stator.runtime.number_methods import NumberMethod
from stator.runtime.random_state import GeneratorMethod
from stator.runtime.traced_arrays import ArrayMethod
from stator.shapes.floats import TracedFloat, depends_on_data
from stator.shapes.scalar import SMALL_INTS, TracedBool, TracedInt, from_data, identical, is_derived
from stator.shapes.texts import TracedText
from stator.tensors import doubts
from stator.tensors.traced import TracedTensor
from stator.world.door import is_structure
from stator.world.exceptions import C_FIELDS, KEPT


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
        if (bound := given_texts.method_of(function)) is not None:
            answer = NotImplemented if kwargs else given_texts.called(*bound, args)
            if answer is not NotImplemented:
                return answer
            function = getattr(bound[1].decay(), bound[0])
        row = row_of(function)
        try:
            answer = NotImplemented if row is None or kwargs else row(host, f, args)
        except (ValueError, ArithmeticError):  # of these numbers: C code raises it for the program
            answer = NotImplemented
        if answer is not NotImplemented:
            if known is not None and type(answer) in (int, float):
                pinning.note_native(host, f, args, answer, known)
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
    elif issubclass(type(function), type) and reads_texts(function):
        args = [without_text(arg) for arg in args]
        kwargs = kwargs and {name: without_text(arg) for name, arg in kwargs.items()}
    before = host.asker_keeps, host.asker_looks
    host.asker_keeps, host.asker_looks = kept, not kept and not runs_python(function)
    try:
        if not host.counts_rounds:
            return Host.call(host, f, function, args, kwargs)
        stamp, made = unrolling.stamp(host), Host.call(host, f, function, args, kwargs)
    finally:
        host.asker_keeps, host.asker_looks = before
    unrolling.note(host, f, function, given, made, stamp)
    if known is not None and host.recorder.takes(function):
        pinning.note(host, f, [*given, *(kwargs or {}).values()], made, known)
    elif known is not None and not runs_python(function):
        pinning.note_native(host, f, given, made, known)
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
    if issubclass(type(function), type):
        return _frames.is_heap_type(function)
    return _frames.is_heap_type(kind) and type(_frames.type_lookup(kind, "__call__")) is types.FunctionType


def row_of(function: Any) -> Caller | None:
    """The row for a function that has an answer of its own for symbolic ints."""
    kind = type(function)
    if kind is types.BuiltinFunctionType and type(function.__self__) is torch.Size and function.__name__ == "numel":
        return lambda host, f, args: math.prod(function.__self__)
    if kind is types.BuiltinFunctionType and type(function.__self__) is str and function.__name__ in STR_METHODS:
        if function.__name__ == "join":
            return lambda host, f, args: join(host, f, function.__self__, args)
        return lambda host, f, args: STR_METHODS[function.__name__](function.__self__, args)
    return ROWS.get(function) if kind in ROW_KINDS else None


def join(host: Any, f: Frame, separator: str, args: list[Any]) -> Any:
    """What other iterables give becomes a list first: C looks at the types of the items."""
    if len(args) == 1 and type(args[0]) in ONE_BY_ONE:
        args[0] = host.call(f, list, [args[0]], None)
    return STR_METHODS["join"](separator, args)


# Those of C; a generator's frames know who asks.
ONE_BY_ONE = frozenset({
    *(type(iter(made())) for made in (list, tuple, dict, set)), type(reversed([])), map, filter,
    dict, set, frozenset, type({}.keys()), type({}.values()), itertools.chain, itertools.islice, itertools.repeat,
})  # fmt: skip


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
LOOKING_UP = frozenset({"get", "pop", "setdefault"})  # of a dict, which gives what it is given: `namedtuple._replace`
KEEPING_OWNERS = frozenset(
    {list, tuple, dict, set, TracedTensor, torch.Size, torch.Generator}
    | {collections.OrderedDict, collections.defaultdict, collections.deque}
)
KEEPING = frozenset(
    {len, max, min, sum, abs, round, sorted, any, all, iter, next, id, callable, divmod, pow}
    | {math.prod, math.floor, math.ceil}
)
KEEPING_CALLABLES = GETTERS | {functools.partial, GeneratorMethod, NumberMethod, ArrayMethod}
SEEING: set[int] = set()  # ids of functions whose stand-ins see to such numbers themselves
SURFACE = frozenset({len, isinstance})  # what is in their arguments is none of their business
DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)
KEEPING_MODULES = frozenset({"_operator", "_functools", "itertools", "_collections", "_bisect", "_heapq"})


def keeps(host: Any, function: Any) -> bool:
    """Whether something made in C may be given symbolic ints."""
    kind = type(function)
    if issubclass(type(function), type):
        return function in KEEPING_TYPES or is_plain_error(function) or function.__module__.startswith("torch")
    if kind in KEEPING_CALLABLES or id(function) in SEEING:
        return True
    if kind is types.MethodWrapperType:
        owner = function.__objclass__
        if function.__name__ == "__init__" and is_plain_error(owner):
            return True
        return owner in KEEPING_OWNERS or function.__name__ in OVERRIDES
    if kind is types.BuiltinFunctionType:
        owner = function.__self__
        if issubclass(type(owner), type) and function.__name__ == "__new__":
            return owner in KEEPING_TYPES
        if owner is not None and not issubclass(type(owner), types.ModuleType):
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
    if type(function) is types.BuiltinFunctionType and type(function.__self__) is dict:
        return function.__name__ in LOOKING_UP
    return type(function) in (type, types.BuiltinFunctionType) and function in POLITE


def moves(function: Any) -> bool:
    """Whether a function made in C does nothing with a text but move it."""
    if issubclass(type(function), type):
        return function in KEEPING_TYPES or is_plain_error(function)
    if type(function) is types.MethodWrapperType:
        return function.__name__ == "__init__" and is_plain_error(function.__objclass__)
    if type(function) is not types.BuiltinFunctionType:
        return False
    return function is print or function is isinstance or home_of(function.__self__, function) in KEEPING_OWNERS


def is_plain_error(cls: type) -> bool:
    """Whether it is an exception of Python's own that does nothing but keep its arguments."""
    return issubclass(cls, BaseException) and cls.__basicsize__ == BaseException.__basicsize__


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


def is_answer(host: Any, function: Any, result: Any) -> bool:
    """Whether a symbol is what `len`, `float`, `int` or `bool` gives; lengths are assumed not to be negative."""
    if type(result) is TracedFloat:
        return function is float and not result.mixed
    if type(result) is TracedBool:
        return function is bool
    if type(result) is not TracedInt or function not in (int, len):
        return False
    if function is len:
        if not from_data(result) and not is_size(host, result):  # a number of the program: a constant, as C has one
            return False
        condition = result >= 0
        return told(host, condition, True) if type(condition) is TracedBool else bool(condition)
    return True


def is_size(host: Any, number: TracedInt) -> bool:
    """Whether a number is made of sizes of tensors and lengths of containers alone; the number of layers of a module is
    none of these, as other ones are another program."""
    found = list(pinning.sources(host, number))
    return bool(found) and all(
        kind == "size" or (pinning.is_length(path) and not any(step.key in LAYERS for step in path.chain()))
        for path, kind, _ in found
    )


LAYERS = ("_modules", "_parameters", "_buffers")


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


STR_METHODS: dict[str, Callable[[str, list[Any]], Any]] = {}  # by name, of texts that are known
VALUES: dict[type, type] = {**STANDS_FOR, TracedText: str}


def for_field(obj: Any, name: str, value: Any) -> Any:
    """What an attribute is set to: C code that keeps it in a field of its own is given a constant."""
    if type(value) not in VALUES or name in KEPT:
        return value
    field = _frames.type_lookup(type(obj), name)
    return value.decay() if type(field) in C_FIELDS and not _frames.is_heap_type(field.__objclass__) else value
