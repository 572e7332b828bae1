"""Recipes for constants, containers and values: same type, same contents, new object."""

import array
import collections
import dataclasses
import datetime
import decimal
import functools
import math
import re
import struct
import sys
import time
import types
import typing

import pytest
import torch

from tests.emit.heap import emit, rebuild
from tests.emit.samples import (
    Box,
    Color,
    Frozen,
    Point,
    SubBytearray,
    SubCounter,
    SubDefault,
    SubDeque,
    SubDict,
    SubFrozenset,
    SubList,
    SubOrdered,
    SubSet,
    SubTuple,
    T,
    source_of,
    sub,
)

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


@pytest.mark.parametrize("obj", CONSTANTS, ids=lambda obj: type(obj).__name__)
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
