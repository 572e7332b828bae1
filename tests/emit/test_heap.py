"""Random heaps with sharing and cycles come back isomorphic, fresh, and without running user code."""

import collections
import functools
import itertools
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emit.heap import emit, rebuild


class Silent:
    """Every method that rebuilding could call by mistake fails."""

    def __init__(self, *args):
        raise AssertionError("user code ran")

    def __fail__(self, *args):
        raise AssertionError("user code ran")

    __new__ = __setattr__ = __getattribute__ = __getattr__ = __eq__ = __reduce_ex__ = __reduce__ = __fail__
    __getstate__ = __setstate__ = __len__ = __bool__ = __repr__ = __iter__ = __getitem__ = __setitem__ = __fail__
    append = extend = update = add = __contains__ = keys = items = values = __copy__ = __deepcopy__ = __fail__
    __hash__ = object.__hash__
    __class__ = property(__fail__)


class Plain:
    pass


class Slotted:
    __slots__ = ("a", "b")


class Both(Slotted):
    __slots__ = ("c", "__dict__")


class SilentPlain(Silent):
    pass


class SilentList(Silent, list):
    pass


class SilentDict(Silent, dict):
    pass


class SilentTuple(Silent, tuple):
    pass


class Key:
    """Hashed and compared by its number."""

    def __init__(self, members):
        self.members = members
        self.rank = next(ranks)

    def __hash__(self):
        return hash(self.rank % 4)

    def __eq__(self, other):
        return self.rank == other.rank


ranks = itertools.count()


def make_instance(cls, members):
    obj = object.__new__(cls)
    for name, value in zip("abc", members):
        if cls in (Slotted, Both):
            object.__setattr__(obj, name, value) if name in ("a", "b") or cls is Both else None
        else:
            raw_dict(obj)[name] = value
    return obj


def raw_dict(obj):
    for cls in type.mro(type(obj)):
        found = cls.__dict__.get("__dict__")
        if type(found).__name__ in ("getset_descriptor", "member_descriptor"):
            return found.__get__(obj)
    raise AssertionError


def silent_list(members):
    obj = list.__new__(SilentList)
    list.extend(obj, members)
    return obj


def silent_dict(members):
    obj = dict.__new__(SilentDict)
    for i, member in enumerate(members):
        dict.__setitem__(obj, f"k{i}", member)
    return obj


KINDS = {
    "list": list,
    "tuple": tuple,
    "dict": lambda members: {f"k{i}": m for i, m in enumerate(members)},
    "plain": lambda members: make_instance(Plain, members),
    "slotted": lambda members: make_instance(Slotted, members[:2]),
    "both": lambda members: make_instance(Both, members),
    "silent": lambda members: make_instance(SilentPlain, members),
    "silent list": silent_list,
    "silent dict": silent_dict,
    "deque": collections.deque,
    "ordered": lambda members: collections.OrderedDict((f"k{i}", m) for i, m in enumerate(members)),
    "default": lambda members: collections.defaultdict(list, {f"k{i}": m for i, m in enumerate(members)}),
    "key": lambda members: Key(members),
    "keyed": lambda members: {Key(members): m for m in members},
    "members": lambda members: {Key([i, m]) for i, m in enumerate(members)},
    "frozen": lambda members: frozenset(Key([i, m]) for i, m in enumerate(members)),
    "exception": lambda members: ValueError(*members),
    "partial": lambda members: functools.partial(print, *members, sep=members),
    "method": lambda members: types.MethodType(print, members),
    "cell": lambda members: types.CellType(members),
    "proxy": lambda members: types.MappingProxyType({"m": members}),
    "namespace": lambda members: types.SimpleNamespace(m=members),
    "iterator": iter,
    "slice": lambda members: slice(members, None),
    "silent tuple": lambda members: tuple.__new__(SilentTuple, members),
}
LATE = {"list": list.append, "silent list": list.append, "deque": collections.deque.append}
DICTS = ("dict", "silent dict", "ordered", "default")
SPACES = ("plain", "silent", "both", "key", "exception", "partial", "namespace")
LEAVES = [None, True, 3, -7, 2.5, float("inf"), "text", b"bytes", 10**60, ..., int, len, (1, 2), NotImplemented]

nodes = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.lists(st.integers(0, 30), max_size=4),
        st.lists(st.integers(0, 30), max_size=2),
    ),
    min_size=1,
    max_size=14,
)


def build(recipe):
    """A heap: each node refers to leaves and earlier nodes; late links to any node close cycles."""
    made = []
    for kind, references, _ in recipe:
        pool = [*LEAVES, *made]
        made.append(KINDS[kind]([pool[r % len(pool)] for r in references]))
    for (kind, _, links), obj in zip(recipe, made):
        for link in links:
            other = made[link % len(made)]
            if kind in LATE:
                LATE[kind](obj, other)
            elif kind in DICTS:
                (collections.OrderedDict if kind == "ordered" else dict).__setitem__(obj, f"late{link}", other)
            elif kind == "keyed":
                obj[Key(other)] = obj
            elif kind == "members":
                obj.add(Key([other]))
            elif kind == "cell":
                obj.cell_contents = other
            elif kind in SPACES:
                raw_dict(obj)[f"late{link}"] = other
            elif kind == "slotted":
                object.__setattr__(obj, "b", other)
    return made


def is_cell(obj):
    return type(obj) is types.CellType


@settings(max_examples=200, deadline=None)
@given(nodes)
def test_random_heaps(recipe):
    made = build(recipe)
    rebuild(made[-1], inside=is_cell)
    rebuild(made, inside=is_cell)


@settings(max_examples=100, deadline=None)
@given(nodes, st.integers(0, 13))
def test_known_objects_stay_themselves(recipe, which):
    made = build(recipe)
    known = made[which % len(made)]
    rebuild([*made], known, inside=is_cell)


@settings(max_examples=100, deadline=None)
@given(nodes)
def test_instance_dicts_met_as_objects(recipe):
    made = build(recipe)
    spaces = [raw_dict(obj) for obj in made if type(obj) in (Plain, Both, SilentPlain)]
    rebuild([spaces, made], inside=is_cell)
    rebuild([made, spaces], inside=is_cell)


@pytest.mark.parametrize("leaf", [(b"bytes", ...), (NotImplemented, 1), ((..., 2), "x"), (None,)])
def test_a_tuple_of_constants_is_one_object(leaf):
    """Also where the compiler makes constants of whole lists."""
    first, second, third = rebuild([leaf, [None, None, leaf], {"key": leaf}])
    assert first is second[2] and first is third["key"]


def test_deep_nesting_needs_no_recursion():
    chain = []
    for _ in range(5000):
        chain = [chain]
    entry = emit(chain)
    copy, depth = entry(), 0
    while copy:
        copy, depth = copy[0], depth + 1
    assert depth == 5000


def test_long_cycle():
    first = node = Plain()
    for _ in range(3000):
        node.next = Plain()
        node.next.back = [node]
        node = node.next
    node.next = first
    entry = emit(first)
    copy = entry()
    seen, step = 0, copy.next
    while step is not copy:
        assert step.back[0].next is step
        seen, step = seen + 1, step.next
    assert seen == 3000
