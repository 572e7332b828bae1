"""One test per recipe row: the rebuilt object is of the same type, has the same state, and is new."""

import array
import ast
import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import functools
import hashlib
import io
import itertools
import math
import operator
import random
import re
import struct
import sys
import threading
import time
import types
import typing
import weakref

import pytest
import torch

from stator.emit import CannotRebuild
from tests.emit.heap import emit, rebuild

T = object()  # stands for a tensor: known at run time


class Color(enum.Enum):
    RED = 1


class Point(typing.NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Box:
    item: object
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    item: object


def source_of(obj, *known, **options):
    return emit(obj, known, **options).__stator_source__


def inside_all(obj):
    return True


def inside_only(*objects):
    return lambda obj: any(obj is other for other in objects)


# Constants.

CONSTANTS = [
    None,
    True,
    0,
    -5,
    10**400,
    1.5,
    -0.0,
    math.inf,
    -math.inf,
    1e-320,
    1 + 2j,
    complex(-0.0, 0.0),
    complex(0.0, -0.0),
    "text",
    "quote ' \" \\ \n \x00 é \udc80",
    "x" * 1000,
    b"bytes\x00",
    b"x" * 1000,
    ...,
    NotImplemented,
    int,
    Box,
    math,
    len,
    torch.add,
    torch.float32,
    torch.device("cpu"),
    torch.strided,
    Color.RED,
    re.compile("a+"),
    (lambda: 0).__code__,
    range(3),
    range(10**30),
    slice(1, 2),
    slice(None),
    frozenset((1, "a")),
    (1, (2, "b"), None),
    (),
    decimal.Decimal("1.50"),
    datetime.date(2020, 1, 2),
    datetime.datetime(2020, 1, 2, 3),
    datetime.timedelta(1),
    datetime.timezone.utc,
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
    list[int],
    int | str,
    typing.List[int],
    typing.Optional[int],
    typing.Any,
    typing.TypeVar("X"),
    struct.Struct("i"),
    re.match("a", "a"),
    list.append,
    str.join,
    int.__add__,
    type.__dict__["__mro__"],
    torch.Tag.core,
    torch.Size([1, 2]),
    torch.iinfo(torch.int8),
    torch.ops.aten.add.Tensor,
    dataclasses.MISSING,
    typing.Callable[[int], str],
]


@pytest.mark.parametrize("obj", CONSTANTS, ids=lambda obj: repr(obj)[:40])
def test_constants(obj):
    copy = emit(obj)()
    assert type(copy) is type(obj)
    assert copy is obj or copy == obj
    if isinstance(obj, float):
        assert struct.pack("d", copy) == struct.pack("d", obj)
    if isinstance(obj, complex):
        assert repr(copy) == repr(obj)
    assert emit([obj])() == [obj]


def test_nan_keeps_its_bits():
    (nan,) = struct.unpack("d", struct.pack("Q", 0xFFF8000000000123))
    assert struct.pack("d", emit([nan])()[0]) == struct.pack("d", nan)


def test_literals_in_the_source():
    assert source_of([1, "a", (2, None)]) == "def entry(): return [1, 'a', (2, None)]\n"
    assert source_of({"a": [T], "b": {1}}, T) == "def entry(l0): return {'a': [l0], 'b': {1}}\n"


def test_many_constants_are_embedded_once():
    numbers = [*range(1000)]
    assert len(source_of(numbers)) < 100
    assert emit(numbers)() == numbers
    assert len(source_of(dict.fromkeys(numbers))) < 100
    assert len(source_of(set(numbers))) < 100
    rebuild(numbers)
    rebuild(set(numbers))
    rebuild(dict.fromkeys(numbers, "x"))


# Containers.


class SubList(list):
    def append(self, item):
        raise AssertionError

    extend = __init__ = __iter__ = __len__ = append


class SubDict(dict):
    def __setitem__(self, key, value):
        raise AssertionError

    update = __init__ = __iter__ = items = keys = __getitem__ = __len__ = __setitem__


class SubOrdered(collections.OrderedDict):
    __setitem__ = update = __init__ = items = SubDict.__setitem__


class SubDefault(collections.defaultdict):
    __setitem__ = update = __init__ = __missing__ = SubDict.__setitem__


class SubDeque(collections.deque):
    append = extend = __init__ = __iter__ = SubList.append


class SubSet(set):
    add = update = __init__ = __iter__ = SubList.append


class SubFrozenset(frozenset):
    def __new__(cls, *args):
        raise AssertionError

    __init__ = __iter__ = __new__


class SubTuple(tuple):
    __new__ = __init__ = __iter__ = __len__ = SubFrozenset.__new__


class SubBytearray(bytearray):
    __init__ = extend = SubList.append


class SubCounter(collections.Counter):
    __setitem__ = update = __init__ = SubDict.__setitem__


def sub(cls, fill, *args):
    base = next(
        step
        for step in cls.__mro__
        if not step.__flags__ & (1 << 9)
        or step in (collections.deque, collections.OrderedDict, collections.defaultdict)
    )
    obj = base.__new__(cls, *args)
    fill(obj)
    obj.extra = T
    return obj


CONTAINERS = {
    "list": [1, T, [T], []],
    "dict": {"a": T, 1: [T], (1, 2): {}, None: None},
    "set": {1, 2, "x"},
    "frozenset": frozenset([1, (T,)]),
    "tuple": (1, (T, [2])),
    "bytearray": bytearray(b"abc"),
    "empty bytearray": bytearray(),
    "deque": collections.deque([1, T]),
    "bounded deque": collections.deque([1, T], 5),
    "empty deque": collections.deque(),
    "OrderedDict": collections.OrderedDict([("b", T), ("a", [1])]),
    "defaultdict": collections.defaultdict(list, {"a": [T]}),
    "empty defaultdict": collections.defaultdict(None),
    "Counter": collections.Counter("abca"),
    "ChainMap": collections.ChainMap({"a": T}, {"b": 1}),
    "UserDict": collections.UserDict({"a": T}),
    "UserList": collections.UserList([T]),
    "array": array.array("d", [1.5, 2.5]),
    "namedtuple": Point(T, [1]),
    "SimpleNamespace": types.SimpleNamespace(a=T, b=[1]),
    "torch.Size": torch.Size([2, 3]),
    "slice": slice(T, [1]),
    "sub list": sub(SubList, lambda o: list.extend(o, [1, T])),
    "sub dict": sub(SubDict, lambda o: dict.__setitem__(o, "k", T)),
    "sub OrderedDict": sub(SubOrdered, lambda o: collections.OrderedDict.__setitem__(o, "k", T)),
    "sub defaultdict": sub(
        SubDefault, lambda o: (collections.defaultdict.__init__(o, list), dict.__setitem__(o, "k", T))
    ),
    "sub deque": sub(SubDeque, lambda o: collections.deque.__init__(o, [1, T], 3)),
    "sub set": sub(SubSet, lambda o: set.update(o, [1, 2])),
    "sub frozenset": sub(SubFrozenset, lambda o: None, [1]),
    "sub tuple": sub(SubTuple, lambda o: None, [1, T]),
    "sub bytearray": sub(SubBytearray, lambda o: bytearray.extend(o, b"ab")),
    "sub Counter": sub(SubCounter, lambda o: dict.__setitem__(o, "k", 2)),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers(kind):
    obj = CONTAINERS[kind]
    copy = rebuild(obj, T)
    assert type(copy) is type(obj)
    if kind == "array":
        assert copy == obj


def test_order_of_ordered_dict():
    ordered = collections.OrderedDict(a=1, b=2, c=3)
    ordered.move_to_end("a")
    assert [*emit(ordered)()] == ["b", "c", "a"]


def test_order_of_sets():
    for items in ([8, 0], [0, 8], ["x", "y", "z"], [16, 8, 0, 24], [*range(100, 0, -7)]):
        example = set(items)
        example.discard(24)
        assert [*emit(example)()] == [*example]


def test_self_containing():
    knot = []
    knot.append(knot)
    copy = rebuild(knot)
    assert copy[0] is copy
    table = {}
    table["self"] = (table, [table])
    rebuild(table)
    queue = collections.deque(maxlen=2)
    queue.append(queue)
    rebuild(queue)
    default = collections.defaultdict(list)
    default["me"] = default
    rebuild(default)
    ordered = collections.OrderedDict()
    ordered["me"] = [ordered]
    rebuild(ordered)
    spaced = types.SimpleNamespace()
    spaced.me = spaced
    rebuild(spaced)


class Key:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


def test_keys_with_own_hash_are_complete_when_hashed():
    key = Key("k")
    key.registry = {key: 1, (key, 2): [key]}
    copy = rebuild(key)
    assert copy.registry[copy] == 1 and copy.registry[(copy, 2)] == [copy]
    key.members = {key}
    key.frozen = (frozenset([key]),)
    copy = rebuild(key)
    assert copy in copy.members and copy in copy.frozen[0]


def test_frozen_dataclass_keys():
    table = {Frozen(1): [T], Frozen((1, 2)): 2}
    copy = emit(table, [T])(T)
    assert copy == table and next(iter(copy)) is not next(iter(table))


def test_immutable_cycle_is_refused():
    inner = SubTuple.__base__.__new__(SubTuple, [1])
    inner.me = (inner,)
    rebuild(inner)
    part = functools.partial(print)
    part.__setstate__((print, (part,), {}, None))
    rebuild(part)


# Values in subclasses.


class SubStr(str):
    __str__ = __repr__ = __new__ = __len__ = SubFrozenset.__new__


class SubInt(int):
    __int__ = __index__ = __repr__ = __new__ = SubFrozenset.__new__


class SubFloat(float):
    __float__ = __repr__ = __new__ = SubFrozenset.__new__


class SubBytes(bytes):
    __bytes__ = __repr__ = __new__ = SubFrozenset.__new__


class SubComplex(complex):
    __complex__ = __repr__ = __new__ = SubFrozenset.__new__


@pytest.mark.parametrize(
    ("cls", "value"), [(SubStr, "abc"), (SubInt, 7), (SubFloat, 1.5), (SubBytes, b"ab"), (SubComplex, 1j)]
)
def test_value_subclasses(cls, value):
    obj = type(value).__new__(cls, value)
    obj.extra = [T]
    copy = emit(obj, [T])(T)
    assert type(copy) is cls and type(value).__eq__(copy, value) and copy.extra == [T] and copy.extra is not obj.extra


@pytest.mark.parametrize(
    "obj", [time.localtime(0), sys.version_info, torch.max(torch.ones(2, 2), 0)], ids=["time", "version", "max"]
)
def test_struct_sequences(obj):
    known = [item for item in obj if isinstance(item, torch.Tensor)]
    if obj is sys.version_info:
        assert emit(obj)() is obj
        return
    copy = emit(obj, known)(*known)
    assert type(copy) is type(obj) and len(copy) == len(obj)
    assert all(a is b or a == b for a, b in zip(obj, copy))
    if not known:
        assert copy.tm_zone == obj.tm_zone and copy.tm_gmtoff == obj.tm_gmtoff


# Instances.


def test_instances():
    rebuild(Box(T, [1, T]), T)
    rebuild(Frozen([T]), T)
    rebuild(object())
    source = "def entry(l0):\n    v1 = c_object_new(c_Box)\n    v1.item = l0\n    v1.tags = []\n    return v1\n"
    assert source_of(Box(T), T) == source


def test_module_with_setattr():
    module = torch.nn.Module()
    module.child = torch.nn.ReLU()
    module.number = 3
    copy = rebuild(module)
    assert copy.child.inplace is False and copy.number == 3


def test_unusual_instance_dicts():
    box = Box(1)
    box.__dict__ = collections.OrderedDict(item=[T])
    assert type(rebuild(box, T).__dict__) is collections.OrderedDict
    box = Box(1)
    box.__dict__["not a name"] = T
    box.__dict__[5] = T
    rebuild(box, T)

    class Shadowed:
        item = property(lambda self: 1 / 0)

    shadowed = Shadowed()
    shadowed.__dict__["item"] = T
    rebuild(shadowed, T)

    class Hidden:
        __dict__ = property(lambda self: 1 / 0)

    with pytest.raises(CannotRebuild, match="hides"):
        emit(Hidden())


def test_instance_and_its_dict_share():
    box = Box([1])
    rebuild([box, vars(box)])
    rebuild([vars(box), box])
    copy = rebuild({"d": vars(box), "b": box})
    copy["b"].item = 5
    assert copy["d"]["item"] == 5


def test_instances_with_one_dict():
    first, second = Box(1), Box(2)
    second.__dict__ = first.__dict__
    copies = rebuild([first, second])
    assert copies[0].__dict__ is copies[1].__dict__
    rebuild([first, second, vars(first)])
    rebuild([vars(first), first, second])
    knot = Box(1)
    knot.item = vars(knot)
    rebuild(knot)
    rebuild(vars(knot))


def test_names_the_parser_would_change():
    box = Box(1)
    for name in ("\ufb01", "\u212a", "__debug__", "class", "é"):
        box.__dict__[name] = name
    assert vars(rebuild(box)) == vars(box)


def test_emitting_does_not_hash():
    class Counted:
        count = 0

        def __hash__(self):
            Counted.count += 1
            return 1

    key = Counted()
    heap = [{key: 1}, {key}, frozenset([key])]
    Counted.count = 0
    entry = emit(heap)
    assert Counted.count == 0
    assert len(entry()[0]) == 1


def test_private_and_inherited_slots():
    class Base:
        __slots__ = ("__hidden", "plain")

    class Derived(Base):
        __slots__ = ("plain",)

    obj = Derived()
    Base.__dict__["_Base__hidden"].__set__(obj, [1])
    Base.__dict__["plain"].__set__(obj, T)
    obj.plain = "derived"
    copy = rebuild(obj, T)
    assert Base.__dict__["plain"].__get__(copy) is T and copy.plain == "derived"


def test_enum_members_and_modules_are_constants():
    assert emit([Color.RED])()[0] is Color.RED
    assert emit([math])()[0] is math


# Exceptions.


class Custom(Exception):
    def __new__(cls, *args):
        raise AssertionError

    __init__ = __setattr__ = __new__


def raised(make):
    try:
        make()
    except BaseException as error:
        return error.with_traceback(None)


def custom():
    error = Exception.__new__(Custom, "a", T)
    BaseException.__dict__["__dict__"].__get__(error)["detail"] = [T]
    return error


EXCEPTIONS = {
    "plain": ValueError("text", T),
    "key": KeyError(T),
    "empty": RuntimeError(),
    "stop": StopIteration(T),
    "exit": SystemExit(3),
    "os": FileNotFoundError(2, "gone", "file", None, "other"),
    "os odd": OSError("one"),
    "blocking": BlockingIOError(1, "x", 7),
    "import": ImportError("m", name="n", path="p"),
    "attribute": raised(lambda: (1).nope),
    "name": raised(lambda: undefined),  # noqa: F821
    "syntax": raised(lambda: compile("a b", "f", "exec")),
    "unicode": raised(lambda: b"\xff".decode()),
    "encode": raised(lambda: "é".encode("ascii")),
    "custom": custom(),
    "group": ExceptionGroup("g", [ValueError(T), KeyError(1)]),
    "linalg": torch.linalg.LinAlgError("x"),
}


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_exceptions(kind):
    error = EXCEPTIONS[kind]
    copy = rebuild(error, T)
    assert type(copy) is type(error)
    for cls in type(error).__mro__:
        for name, field in vars(cls).items():
            if type(field) in (types.MemberDescriptorType, types.GetSetDescriptorType) and name not in (
                "__weakref__",
                "__dict__",
                "exceptions",
                "args",
            ):  # noqa: E501
                try:
                    expected = field.__get__(error)
                except AttributeError:
                    expected = None
                assert expected is None or field.__get__(copy) == expected
    assert str(error) == str(copy)


def test_exception_links():
    error = ValueError("outer")
    error.__cause__ = KeyError("cause")
    error.__context__ = error.__cause__
    error.add_note("note")
    copy = rebuild(error)
    assert copy.__cause__ is copy.__context__ and copy.__suppress_context__ and copy.__notes__ == ["note"]
    error.__suppress_context__ = False
    assert rebuild(error).__suppress_context__ is False
    other = ValueError()
    other.__context__ = TypeError()
    other.__suppress_context__ = True
    assert rebuild(other).__suppress_context__ is True


def test_exception_cycles_and_tracebacks():
    error = ValueError()
    error.args = ([error],)
    error.__context__ = KeyError(error)
    copy = rebuild(error)
    assert copy.args[0][0] is copy and copy.__context__.args == (copy,)
    try:
        raise ValueError
    except ValueError as caught:
        traceback = caught.__traceback__
        assert emit(caught)().__traceback__ is None
        assert emit(caught, [traceback])(traceback).__traceback__ is traceback


# Functions.


def make_counter(start):
    count = start

    def up(step: int = 1, *more, scale=[T], **rest) -> int:  # noqa: B006
        "Count."
        nonlocal count
        count += step
        return count

    def get():
        return count

    up.tag = [T]
    return up, get


def test_functions_with_shared_cells():
    up, get = make_counter(5)
    copy_up, copy_get = rebuild((up, get), T, inside=inside_all_of(up, get))
    assert (copy_up(), copy_get(), get()) == (6, 6, 5)
    assert copy_up.__doc__ == "Count." and copy_up.__module__ == __name__ and copy_up.__kwdefaults__ == {"scale": [T]}
    assert copy_up.__globals__ is globals()


def inside_all_of(*functions):
    """The functions and their cells, and nothing else."""
    found = [*functions, *(cell for function in functions for cell in function.__closure__ or ())]
    return lambda obj: any(obj is other for other in found)


def test_outside_functions_are_constants():
    up, get = make_counter(5)
    assert emit([up])()[0] is up


def test_recursive_and_empty_cells():
    def outer():
        def loop(n):
            return n if n == 0 else loop(n - 1)

        def broken():
            return later

        return loop, broken
        later = 1

    loop, broken = outer()
    copy, empty = rebuild((loop, broken), inside=inside_all)
    assert copy(3) == 0 and copy.__closure__[0].cell_contents is copy
    with pytest.raises(NameError):
        empty()


def test_function_attributes():
    def f():
        pass

    f.__name__, f.__qualname__, f.__doc__, f.__module__ = "g", "h.g", "doc", "mod"
    copy = rebuild(f, inside=inside_all)
    assert (copy.__name__, copy.__qualname__, copy.__doc__, copy.__module__) == ("g", "h.g", "doc", "mod")
    exec("def made(): return value", space := {"value": [1], "__name__": "nowhere"})
    copy = rebuild(space["made"], inside=inside_all)
    assert copy.__globals__["made"] is copy and copy() == [1]
    assert emit(space["made"], inside=inside_only(space["made"]))().__globals__ is space


def test_methods():
    class Owner:
        def method(self):
            return self

    owner = Owner()
    copy, again = rebuild((owner.method, owner))
    assert copy.__self__ is again
    items = []
    append, same = rebuild((items.append, items))
    append(1)
    assert same == [1]
    assert rebuild([1, 2].__len__)() == 2
    assert emit("a".join)()(["b", "c"]) == "bac"
    assert emit(dict.fromkeys)() == dict.fromkeys
    assert emit(object.__new__)() is object.__new__

    class Local:
        pass

    order, cls = emit((Local.mro, Local), inside=inside_only(Local))()
    assert order() == [cls, object]
    made, cls = emit((SubDict.fromkeys, SubDict), inside=inside_only(SubDict))()
    assert made.__self__ is cls is not SubDict
    insert = sub(SubList, lambda o: None).insert
    emit(insert, [T])(T)(0, 1)


def test_super():
    class A:
        def name(self):
            return "A"

    class B(A):
        def name(self):
            return "B"

        def up(self):
            return super()

    assert emit(B().up())().name() == "A"


def test_descriptors():
    def f(self):
        return 1

    for obj in (classmethod(f), staticmethod(f), property(f, None, f, "doc"), property(f)):
        rebuild(obj)

    class Own(property):
        def __init__(self, *args):
            raise AssertionError

    own = property.__new__(Own)
    property.__init__(own, f)
    own.extra = [T]
    assert rebuild(own, T).fget is f


def test_partials():
    partial = functools.partial(f := print, T, [1], sep="")
    copy = rebuild(partial, T)
    assert copy.func is f and copy.args == (T, [1]) and copy.keywords == {"sep": ""}
    partial.note = [1]
    nested = functools.partial(partial, 2)
    copy = rebuild(nested, T)
    assert type(copy.func) is functools.partial

    class Sub(functools.partial):
        pass

    assert type(rebuild(Sub(print, T), T)) is Sub
    method = functools.partialmethod(print, T)
    assert rebuild(method, T).args == (T,)


def test_operator_objects():
    assert emit(operator.itemgetter(1, slice(None)))()("ab") == ("b", "ab")
    assert emit(operator.attrgetter("real", "imag"))()(1j) == (0.0, 1.0)
    assert emit(operator.methodcaller("split", sep=",", maxsplit=1))()("a,b,c") == ["a", "b,c"]
    assert emit(operator.methodcaller("split", "b"))()("abc") == ["a", "c"]


def test_lru_cache():
    @functools.lru_cache(maxsize=3)
    def cached(x):
        return x

    assert emit([cached])()[0] is cached
    copy = emit(cached, inside=inside_all)()
    assert copy is not cached and copy(1) == 1 and copy.cache_info().maxsize == 3 and cached.cache_info().misses == 0
    cached(1)
    with pytest.raises(CannotRebuild, match="cache"):
        emit(cached, inside=inside_all)


# Iterators.


def advance(iterator, steps):
    for _ in range(steps):
        next(iterator, None)
    return iterator


class Indexed:
    def __getitem__(self, index):
        return [10, 20, 30][index]


def growing(items):
    return len(items) < 100


ITERATORS = {
    "list": lambda: iter([1, 2, 3]),
    "reversed list": lambda: reversed([1, 2, 3]),
    "tuple": lambda: iter((1, [2], 3)),
    "str": lambda: iter("abc"),
    "wide str": lambda: iter("éab"),
    "bytes": lambda: iter(b"abc"),
    "bytearray": lambda: iter(bytearray(b"abc")),
    "range": lambda: iter(range(5, 50, 3)),
    "long range": lambda: iter(range(0, 1 << 70, 1 << 69)),
    "reversed tuple": lambda: reversed((1, 2, 3)),
    "reversed range": lambda: reversed(range(4)),
    "dict": lambda: iter({"a": 1, "b": 2, "c": 3}),
    "dict values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "dict items": lambda: iter({"a": 1, "b": 2, "c": 3}.items()),
    "reversed dict": lambda: reversed({"a": 1, "b": 2, "c": 3}),
    "reversed values": lambda: reversed({"a": 1, "b": 2, "c": 3}.values()),
    "reversed items": lambda: reversed({"a": 1, "b": 2, "c": 3}.items()),
    "deque": lambda: iter(collections.deque([1, 2, 3])),
    "reversed deque": lambda: reversed(collections.deque([1, 2, 3])),
    "callable": lambda: iter(functools.partial(next, iter([1, 2, 3])), 3),
    "getitem": lambda: iter(Indexed()),
    "enumerate": lambda: enumerate([5, 6, 7], 3),
    "zip": lambda: zip([1, 2, 3], "abc"),
    "strict zip": lambda: zip([1, 2, 3], "abc", strict=True),
    "map": lambda: map(abs, [-1, -2, -3]),
    "filter": lambda: filter(None, [0, 1, 0, 2, 3]),
    "count": lambda: itertools.count(3, 2),
    "count float": lambda: itertools.count(1.5, 0.5),
    "cycle": lambda: itertools.cycle([1, 2]),
    "repeat": lambda: itertools.repeat("x", 4),
    "endless repeat": lambda: itertools.repeat("x"),
    "chain": lambda: itertools.chain([1, 2], "ab", (5,)),
    "chain from": lambda: itertools.chain.from_iterable([[1, 2], [3, 4]]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4]),
    "accumulate initial": lambda: itertools.accumulate([1, 2, 3], operator.mul, initial=7),
    "combinations": lambda: itertools.combinations([1, 2, 3], 2),
    "replacement": lambda: itertools.combinations_with_replacement([1, 2, 3], 2),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "product": lambda: itertools.product([1, 2], "ab"),
    "compress": lambda: itertools.compress([1, 2, 3], [1, 0, 1]),
    "dropwhile": lambda: itertools.dropwhile(lambda x: x < 2, [1, 2, 1]),
    "takewhile": lambda: itertools.takewhile(lambda x: x < 3, [1, 2, 3, 1]),
    "filterfalse": lambda: itertools.filterfalse(None, [0, 1, 0]),
    "starmap": lambda: itertools.starmap(pow, [(2, 3), (3, 2)]),
    "islice": lambda: itertools.islice([1, 2, 3, 4, 5], 1, 5, 2),
    "zip_longest": lambda: itertools.zip_longest([1], [2, 3], fillvalue=T),
    "groupby": lambda: itertools.groupby([1, 1, 2]),
    "tee": lambda: itertools.tee([1, 2, 3])[0],
    "pairwise": lambda: itertools.pairwise([1, 2, 3]),
}


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
@pytest.mark.parametrize("kind", ITERATORS)
def test_iterators(kind, steps):
    iterator = advance(ITERATORS[kind](), steps)
    if kind == "pairwise" and 0 < steps < 9:
        with pytest.raises(CannotRebuild):
            emit(iterator, [T])
        return
    copy = emit(iterator, [T])(T)
    assert type(copy) is type(iterator)
    assert operator.length_hint(copy, -1) == operator.length_hint(iterator, -1)
    expected = [*itertools.islice(advance(ITERATORS[kind](), steps), 10)]
    if kind == "groupby":
        expected = [key for key, _ in expected]
        assert [key for key, _ in copy] == expected
    else:
        assert [*itertools.islice(copy, 10)] == expected


def test_iterators_share_their_container():
    items = [1, 2]
    copy, iterator = rebuild((items, iter(items)))
    copy.append(3)
    assert [*iterator] == [1, 2, 3]
    table = {"a": 1}
    copy, iterator = emit((table, iter(table)))()
    copy["b"] = 2
    with pytest.raises(RuntimeError):
        next(iterator)
    left, right = itertools.tee([1, 2, 3])
    next(left)
    left_copy, right_copy = emit((left, right))()
    assert [*right_copy] == [1, 2, 3] and [*left_copy] == [2, 3]


def test_iterators_over_subclasses():
    obj = sub(SubList, lambda o: list.extend(o, [1, 2]))
    assert [*emit(list.__iter__(obj), [T])(T)] == [1, 2]
    obj = sub(SubDict, lambda o: dict.update(o, a=1))
    assert [*emit(dict.__iter__(obj), [T])(T)] == ["a"]


def test_iterators_that_are_refused():
    table = {"a": 1, "b": 2}
    iterator = iter(table)
    next(iterator)
    table["c"] = 3
    members = iter({1, 2, 3})
    next(members)

    class Mine:
        def __iter__(self):
            raise AssertionError

        def __next__(self):
            return 1

    for refused in (iterator, members, map(abs, Wrapped(Mine())), next(itertools.groupby("ab"))[1]):
        with pytest.raises(CannotRebuild):
            emit(refused)
    assert sorted(emit(iter({1, 2}))()) == [1, 2]


class Wrapped:
    """Iterable that gives an iterator written in Python."""

    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return self.inner


def test_views_and_proxies():
    table = {"a": [T]}
    for view in (table.keys(), table.values(), table.items(), types.MappingProxyType(table)):
        copy, items = emit((view, table), [T])(T)
        assert type(copy) is type(view)
        items["b"] = 2
        assert len(copy) == 2
    ordered = collections.OrderedDict(a=1)
    assert [*emit(ordered.items())()] == [("a", 1)]
    proxy = emit(vars(Box))()
    assert type(proxy) is types.MappingProxyType and proxy["__init__"] is vars(Box)["__init__"]


# The rest of the library.


def test_buffers():
    text = io.StringIO("héllo\nworld")
    text.readline()
    copy = emit(text)()
    assert copy.read() == "world" and copy.getvalue() == text.getvalue()
    text = io.StringIO()
    text.write("abc")
    copy = emit(text)()
    copy.write("d")
    assert copy.getvalue() == "abcd"
    data = io.BytesIO(b"hello")
    data.seek(2)
    assert emit(data)().read() == b"llo"
    data.close()
    assert emit(data)().closed


def test_random():
    generator = random.Random(5)
    generator.gauss(0, 1)
    copy = emit(generator)()
    assert copy.gauss_next == generator.gauss_next and copy.random() == generator.random()


def test_locks():
    assert type(emit(threading.Lock())()) is type(threading.Lock())
    assert type(emit(threading.RLock())()) is type(threading.RLock())
    event = threading.Event()
    event.set()
    assert emit(event)().is_set()
    lock = threading.Lock()
    with lock, pytest.raises(CannotRebuild, match="lock"):
        emit(lock)


def test_references():
    box = Box(1)
    reference, copy = rebuild((weakref.ref(box), box))
    assert reference() is copy
    known = Box(2)
    assert emit(weakref.ref(known), [known])(known)() is known
    dead = weakref.ref(Box(3))
    assert emit(dead)()() is None
    called = []
    reference, copy = emit((weakref.ref(box, called.append), box), [called])(called)
    del copy
    assert called == [reference]
    owner = Owner()
    reference = weakref.WeakMethod(owner.bound)
    method, copy = emit((reference, owner), inside=inside_all_of(reference.__callback__))()
    assert method().__self__ is copy
    table = weakref.WeakSet([owner])
    copy, item = emit((table, owner), inside=inside_all_of(table._remove))()
    assert [*copy] == [item]
    del item
    assert len(copy) == 0


def test_weak_dictionaries():
    box, key = Owner(), Owner()
    values = weakref.WeakValueDictionary(a=box)
    keys = weakref.WeakKeyDictionary({key: 1})
    functions = inside_all_of(values._remove, keys._remove)
    copies, item, other = emit(((values, keys), box, key), inside=functions)()
    assert copies[0]["a"] is item and copies[1][other] == 1
    del item, other
    assert not copies[0] and not copies[1]
    copies = emit((values, keys), inside=functions)()
    assert not copies[0] and not copies[1]


def test_syntax_trees_and_comparison_keys():
    tree = emit(ast.parse("x = y + 1"))()
    assert ast.unparse(tree) == "x = y + 1"
    make = functools.cmp_to_key(lambda a, b: b - a)
    assert sorted([1, 3, 2], key=emit(make)()) == [3, 2, 1]
    assert emit(make(3))() < emit(make(1))()


class Owner:
    def bound(self):
        return self


def test_hashes():
    digest = hashlib.sha256(b"abc")
    copy = emit(digest)()
    copy.update(b"d")
    assert (
        copy.hexdigest() == hashlib.sha256(b"abcd").hexdigest()
        and digest.hexdigest() == hashlib.sha256(b"abc").hexdigest()
    )


def test_arrays_of_numpy():
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6.0).reshape(2, 3)
    array = array.copy()
    copy = emit(array)()
    assert copy is not array and (copy == array).all() and copy.dtype == array.dtype
    assert emit([numpy.float32(1.5)])()[0] == 1.5
    with pytest.raises(CannotRebuild):
        emit(array[0])


def test_annotations_over_inside_classes():
    class Local:
        pass

    alias, cls = emit((list[Local], Local), inside=inside_only(Local))()
    assert alias.__args__ == (cls,) and cls is not Local
    alias, cls = emit((typing.Optional[Local], Local), inside=inside_only(Local))()
    assert alias.__args__[0] is cls


def gen():
    yield


async def coro():
    pass


REFUSED = {
    "generator": gen,
    "coroutine": coro,
    "frame": sys._getframe,
    "memoryview": lambda: memoryview(b"a"),
    "context variable": lambda: contextvars.ContextVar("x"),
    "context": contextvars.copy_context,
    "open file": lambda: open(__file__),
    "binary file": lambda: open(__file__, "rb"),
    "tensor": lambda: torch.ones(1),
    "parameter": lambda: torch.nn.Parameter(torch.ones(1)),
    "random generator": torch.Generator,
    "thread-local": threading.local,
    "weak proxy": lambda: weakref.proxy(Box),
    "odict iterator": lambda: iter(collections.OrderedDict(a=1)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind):
    obj = REFUSED[kind]()
    with pytest.raises(CannotRebuild) as caught:
        emit({"a": [obj]})
    assert caught.value.obj is obj
    assert "inside a list, inside a dict: " in str(caught.value)
    if hasattr(obj, "close"):
        obj.close()
