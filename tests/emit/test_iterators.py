"""Recipes for iterators and views: same type, same container, same position."""

import collections
import functools
import itertools
import operator
import types

import pytest

from stator.emit import CannotRebuild
from tests.emit.heap import emit, rebuild
from tests.emit.samples import Box, SubDict, SubList, T, sub


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
