"""Objects that the tests of recipes share."""

import collections
import dataclasses
import enum
import typing

from tests.emit.heap import emit

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


def inside_all_of(*functions):
    """The functions and their cells, and nothing else."""
    found = [*functions, *(cell for function in functions for cell in function.__closure__ or ())]
    return lambda obj: any(obj is other for other in found)


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
