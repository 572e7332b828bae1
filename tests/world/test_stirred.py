"""Keys and elements that come and go again while somebody iterates: no difference, but the iterator knows of it."""

from collections import OrderedDict, defaultdict, deque

import pytest
import torch

import stator
from tests.harness import check

MAPPINGS = {
    "dict": lambda: {0: 0, 1: 1, 2: 2},
    "defaultdict": lambda: defaultdict(int, {0: 0, 1: 1, 2: 2}),
    "OrderedDict": lambda: OrderedDict([(0, 0), (1, 1), (2, 2)]),
}
MAPPING_CHANGES = {
    "first": lambda d: d.__setitem__(0, d.pop(0)),
    "last": lambda d: d.__setitem__(2, d.pop(2)),
    "two, once": lambda d: d[0] == 0 and [d.__setitem__(key, d.pop(key) + 5) for key in (0, 1)],
    "other value": lambda d: (d.__setitem__(0, 7), d.__setitem__(2, d.pop(2))),
    "comes and goes": lambda d: (d.__setitem__(9, 1), d.pop(9)),
    "values only": lambda d: d.__setitem__(0, 5),
}


def iterates(x, container, change):
    seen = []
    for item in container:
        stator.graph_break()
        seen.append(item)
        if len(seen) > 6:
            break
        change(container)
    return x + 1, seen


@pytest.mark.parametrize("change", MAPPING_CHANGES)
@pytest.mark.parametrize("make", MAPPINGS)
def test_mappings(make, change):
    def program(x):
        return iterates(x, MAPPINGS[make](), MAPPING_CHANGES[change])

    check(program, torch.ones(2), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def all_again(d):
    for key in [*d]:
        del d[key]
    for key in range(3):
        d[key] = key


def two_by_two(d):
    taken = [d.popitem() for _ in range(2)]
    d.update(reversed(taken))


def anew(d):
    held = dict(d)
    d.clear()
    d.update(held)


@pytest.mark.parametrize("change", [all_again, two_by_two, anew])
@pytest.mark.parametrize("way", [iter, reversed, dict.items, enumerate])
@pytest.mark.parametrize("n", [3, 5, 6])
def test_several_keys(change, way, n):
    """Where they lie afterwards depends on when the table grew."""

    def program(x):
        d, seen = {i: i for i in range(n)}, []
        try:
            for item in way(d):
                seen.append(item)
                if len(seen) > 9:
                    break
                x = x + len(seen)
                stator.graph_break()
                change(d)
        except RuntimeError as error:
            return x, seen, str(error), d
        return x, seen, d

    check(program, torch.ones(2), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_moves_that_leave_the_order():
    def change(d):
        for key in (0, 1, 2):
            d.move_to_end(key)

    def program(x):
        return iterates(x, OrderedDict([(0, 0), (1, 1), (2, 2)]), change)

    check(program, torch.ones(2), fullgraph=False, expect_breaks=None, expect_recompiles=None)


DEQUES = {
    "two": lambda: deque([0, 1]),
    "one": lambda: deque([0]),
    "full": lambda: deque([0, 1], 2),
    "one and full": lambda: deque([0], 1),
}
DEQUE_CHANGES = {
    "comes and goes": lambda q: (q.append(5), q.pop()),
    "there and back": lambda q: (q.rotate(1), q.rotate(-1)),
    "an item": lambda q: q.__setitem__(0, 7),
    "nothing": lambda q: q.extend([]),
}


@pytest.mark.parametrize("change", DEQUE_CHANGES)
@pytest.mark.parametrize("make", DEQUES)
def test_deques(make, change):
    def program(x):
        return iterates(x, DEQUES[make](), DEQUE_CHANGES[change])

    check(program, torch.ones(2), fullgraph=False, expect_breaks=None, expect_recompiles=None)


@pytest.mark.parametrize("change", ["comes and goes", "an item"])
def test_iterators_of_others(change):
    """The iterator is nowhere in the program."""

    def outcome(function):
        elements = deque([0, 1, 2])
        iterator = iter(elements)
        function(torch.ones(2), elements)
        try:
            return next(iterator), elements
        except RuntimeError as error:
            return str(error), elements

    def program(x, elements):
        DEQUE_CHANGES[change](elements)
        return x + 1

    assert outcome(stator.compile(program, backend="eager", fullgraph=True)) == outcome(program)
