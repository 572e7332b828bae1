"""Iterators, views and other C objects with contents that come from outside."""

import array
import itertools
import types

import pytest

import stator


def calls(program, make, count=3):
    """What `count` calls on one object give, and what is left of it, eagerly and compiled."""

    def outcomes(function):
        obj = make()
        results = [repr(outcome(function, obj)) for _ in range(count)]
        return results, repr(rest(obj))

    return outcomes(program), outcomes(stator.compile(program, backend="eager", fullgraph=True))


def outcome(function, *args):
    try:
        return function(*args)
    except (StopIteration, ValueError) as error:
        return error


def rest(obj):
    return list(itertools.islice(obj, 3)) if hasattr(obj, "__next__") else obj


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([1, 2, 3, 4]),
        lambda: iter((1, 2, 3, 4, 5)),
        lambda: iter("abcdef"),
        lambda: iter("ab\u1234def"),
        lambda: iter(b"abcdef"),
        lambda: iter(bytearray(b"abcdef")),
        lambda: iter(range(3, 9)),
        lambda: reversed([1, 2, 3, 4, 5]),
        lambda: itertools.count(3),
        lambda: itertools.count(3, 7),
    ],
)
def test_an_outside_iterator_advances(make):
    def program(it):
        return next(it), next(it)

    eager, compiled = calls(program, make, count=2)
    assert compiled == eager


def test_exhausting():
    eager, compiled = calls(lambda it: list(it), lambda: iter([1, 2, 3]))
    assert compiled == eager


def test_the_list_below_the_iterator():
    shared = [1, 2, 3]

    def program(it):
        first = next(it)
        shared.append(first)
        return first

    def make():
        shared[:] = [1, 2, 3]
        return iter(shared)

    eager, compiled = calls(program, make, count=4)
    assert compiled == eager


@pytest.mark.parametrize("view", [dict.keys, dict.values, dict.items])
def test_a_view_follows_its_dict(view):
    mapping = {}

    def program(shown):
        mapping[len(mapping)] = 1
        return list(shown)

    def make():
        mapping.clear()
        return view(mapping)

    eager, compiled = calls(program, make)
    assert compiled == eager


def test_a_mapping_proxy_follows_its_dict():
    mapping = {}

    def program(shown):
        mapping["n"] = mapping.get("n", 0) + 1
        return dict(shown)

    def make():
        mapping.clear()
        return types.MappingProxyType(mapping)

    eager, compiled = calls(program, make)
    assert compiled == eager


def test_a_slice_with_contents():
    eager, compiled = calls(lambda s: s.start.append(1), lambda: slice([], 1))
    assert compiled == eager


@pytest.mark.parametrize(
    "make",
    [
        lambda: (x for x in [1, 2, 3]),
        lambda: zip([1, 2], [3, 4]),
        lambda: map(str, [1, 2]),
        lambda: iter({1: 2}),
        lambda: iter([None, 1].pop, None),
        lambda: itertools.tee([1])[0],
    ],
)
def test_others_are_refused_untouched(make):
    it = make()
    with pytest.raises(stator.errors.Unsupported):
        stator.compile(lambda it: sum(1 for _ in it), backend="eager", fullgraph=True)(it)
    assert list(it)


def test_buffers_are_refused():
    numbers = array.array("i", [1, 2])

    def program():
        numbers[0] += 1

    with pytest.raises(stator.errors.Unsupported):
        stator.compile(program, backend="eager", fullgraph=True)()
    assert numbers[0] == 1
