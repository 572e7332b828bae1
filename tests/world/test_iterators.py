"""Iterators, views and other C objects with contents that come from outside."""

import array
import itertools
import types

import pytest
import torch

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
        lambda: reversed((1, 2, 3, 4, 5)),
        lambda: iter({1: 2, 3: 4, 5: 6, 7: 8}),
        lambda: iter({1: 2, 3: 4, 5: 6, 7: 8}.values()),
        lambda: iter({1: 2, 3: 4, 5: 6, 7: 8}.items()),
        lambda: iter({1, 2, 3, 4, 5}),
        lambda: enumerate("abcdef", 3),
        lambda: zip("abcdef", [1, 2, 3, 4, 5]),
        lambda: zip("abc", [1, 2, 3, 4, 5]),
        lambda: zip("abcde", [1, 2, 3, 4, 5], strict=True),
        lambda: enumerate(zip("abcdef", {1: 2, 3: 4, 5: 6, 7: 8})),
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


# ---- read ahead of the real iterator ------------------------------------------------------------------------------


def entries_of(compiled):
    return len(compiled.miss.__self__.entries)


def first_of(it, x):
    for element in it:
        return x + element
    return x


@pytest.mark.parametrize(
    "kind", [iter, lambda xs: iter(tuple(xs)), reversed, lambda xs: iter(dict(enumerate(xs)).values())]
)
def test_the_position_is_not_guarded(kind):
    tensors = [torch.ones(2) * i for i in range(5)]
    x = torch.zeros(2)
    compiled = stator.compile(first_of, backend="eager", fullgraph=True)
    ours, theirs = kind(tensors), kind(tensors)
    for _ in range(5):
        assert torch.equal(compiled(ours, x), first_of(theirs, x))
    assert entries_of(compiled) == 1
    assert compiled(ours, x) is x
    assert compiled(ours, x) is x
    assert entries_of(compiled) <= 3


def test_many_elements():
    def program(it, x):
        for element in it:
            x = x + element
        return x, next(it, "over")

    tensors = [torch.ones(2) * i for i in range(150)]
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        it = iter(tensors)
        result, over = compiled(it, torch.zeros(2))
        assert torch.equal(result, sum(tensors)) and over == "over" and next(it, None) is None
    assert entries_of(compiled) == 1
    tensors.append(torch.ones(2))
    assert torch.equal(compiled(iter(tensors), torch.zeros(2))[0], sum(tensors))
    assert entries_of(compiled) == 2


def test_an_iterator_kept_in_an_attribute():
    class Data:
        def __init__(self):
            self.batches = iter([torch.ones(2) * i for i in range(6)])

    def program(data):
        return next(data.batches) + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    data = Data()
    for number in range(6):
        assert torch.equal(compiled(data), torch.ones(2) * number + 1)
    assert entries_of(compiled) == 1
    with pytest.raises(StopIteration):
        compiled(data)


@pytest.mark.parametrize(
    "use",
    [
        lambda it: (next(it), list(it)), lambda it: (next(it), sum(it)), lambda it: [*it], lambda it: f"{it}"[:10],
        lambda it: (next(it), sum(x for x in it)), lambda it: [next(it) for _ in range(2)], lambda it: type(it),
        lambda it: list(zip(it, it)), lambda it: (iter(it) is it, next(it, 5)), lambda it: 3 in it,
        lambda it: (bool(it), not it), lambda it: it.__next__(), lambda it: [(next(it), x) for x in it],
        lambda it: it.__length_hint__(), lambda it: dict(enumerate(it)), lambda it: max(it, default=0),
        lambda it: (next(it), next(it), next(it), next(it), next(it)),
    ],
)  # fmt: skip
def test_uses(use):
    eager, compiled = calls(lambda it: use(it), lambda: iter([1, 2, 3, 4]))
    assert compiled == eager


def test_yield_from():
    def program(it):
        def inner(values):
            yield next(values)
            yield from values

        return list(inner(it))

    eager, compiled = calls(program, lambda: iter([1, 2, 3, 4]), count=1)
    assert compiled == eager


@pytest.mark.parametrize("early", [True, False])
def test_the_list_changes_before_or_after(early):
    def program(it, items, clear):
        if clear:
            del items[1:]
        first = next(it, None)
        items.append(9)
        return first, next(it, None), next(it, None)

    def make():
        items = [1, 2]
        return [iter(items), items, early]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    ours, theirs = make(), make()
    for _ in range(3):
        assert compiled(*ours) == program(*theirs)
        assert ours[1] == theirs[1]


def test_a_list_that_comes_to_lie_beneath_the_iterator():
    def program(it, items):
        items[0] = 7
        return next(it)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    one, two = [1, 2], [1, 2]
    assert compiled(iter(one), two) == 1
    one, two = [1, 2], [1, 2]
    assert compiled(iter(two), two) == 7


def test_an_iterator_that_comes_to_lie_beneath_another():
    def program(pairs, it):
        return next(pairs), next(it)

    compiled = stator.compile(program, backend="eager")
    assert compiled(zip([1, 2], [3, 4]), iter([1, 2])) == ((1, 3), 1)
    inner = iter([1, 2])
    assert compiled(zip(inner, [3, 4]), inner) == ((1, 3), 2)
    inner = iter([1, 2, 3])
    assert compiled(zip(inner, inner), inner) == ((1, 2), 3)


def test_one_iterator_by_two_names():
    def program(a, b):
        return next(a), next(b), a is b

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    it = iter([1, 2, 3])
    assert compiled(it, it) == (1, 2, True)
    assert next(it) == 3
    assert compiled(iter([1, 2]), iter([1, 2])) == (1, 1, False)


def test_uneven_zip_is_left_as_eager_leaves_it():
    def program(pairs):
        return [pair for pair in pairs], next(pairs, "end")

    def outcomes(function):
        longer = iter([1, 2, 3, 4, 5])
        pairs = zip(longer, [1, 2])
        return function(pairs), list(longer)

    assert outcomes(stator.compile(program, backend="eager", fullgraph=True)) == outcomes(program)


@stator.disable
def breaks(x):
    return x


def add_up(items, x):
    for item in items:
        x = x + item
        x = breaks(x)
    return x


@pytest.mark.parametrize("kind", [list, iter, lambda xs: iter(tuple(xs)), lambda xs: reversed(list(xs))])
def test_a_loop_with_a_break_is_not_compiled_per_round(kind):
    tensors = [torch.ones(2) * i for i in range(12)]
    compiled = stator.compile(add_up, backend="eager")
    assert torch.equal(compiled(kind(tensors), torch.zeros(2)), sum(tensors))
    known = stator.stats()["frames_captured"]
    assert known < 8
    assert torch.equal(compiled(kind(tensors), torch.zeros(2)), sum(tensors))
    assert stator.stats()["frames_captured"] == known


def test_writes_before_and_after_a_break():
    def program(items, d, x):
        items.append(x)
        d["a"] = items.pop()
        items.append(breaks(len(d)))
        d["b"] = items[-1]
        items.append(d.get("c", breaks(5)))
        return items[0], d["a"], items[-2:]

    def make():
        return [list(range(70)), dict.fromkeys(range(70)), -1]

    compiled = stator.compile(program, backend="eager")
    ours, theirs = make(), make()
    for _ in range(3):
        assert compiled(*ours) == program(*theirs)
        assert ours == theirs
