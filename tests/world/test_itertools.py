"""Iterators of itertools, map and filter that existed before the call: read ahead, advanced after the graph."""

import itertools
from collections import OrderedDict

import pytest
import torch

import stator
from stator.report import events

CALLED = []


def doubled(value):
    CALLED.append(value)
    return value * 2


def next_one(x, iterator):
    return x + next(iterator)


def two(x, iterator):
    return x * next(iterator) + next(iterator, 7)


def all_of_it(x, iterator):
    for value in iterator:
        x = x + value
    return x


def numbers(count=6):
    return [number + 0.5 for number in range(count)]


FINITE = {
    "chain": lambda: itertools.chain(numbers(2), tuple(numbers(3)), range(2)),
    "chain of lists": lambda: itertools.chain.from_iterable([numbers(2), [], numbers(1)]),
    "islice": lambda: itertools.islice(numbers(30), 2, 20, 3),
    "islice of a cycle": lambda: itertools.islice(itertools.cycle(numbers(3)), 7),
    "repeat": lambda: itertools.repeat(2.5, 4),
    "started": lambda: started(itertools.chain(numbers(3), numbers(2)), 2),
    "map": lambda: map(doubled, numbers(4)),
    "map over two": lambda: map(lambda a, b: a * b, numbers(4), itertools.cycle([2, 3])),
    "filter": lambda: filter(lambda value: value > 2, iter(numbers())),
    "filter without a function": lambda: filter(None, [0, 1, 0, 2, 3]),
    "zip": lambda: map(sum, zip(itertools.cycle(numbers(2)), numbers(3))),
}
INFINITE = {
    "cycle": lambda: itertools.cycle(numbers(3)),
    "started cycle": lambda: started(itertools.cycle(numbers(3)), 5),
    "repeat for ever": lambda: itertools.repeat(1.5),
    "count": itertools.count,
    "started count by steps": lambda: started(itertools.count(5, -2), 2),
    "pairs with a count": lambda: map(sum, zip(itertools.count(3), itertools.repeat(2))),
}


def started(iterator, steps):
    for _ in range(steps):
        next(iterator)
    return iterator


def run(program, iterator, calls):
    """Results of calls, what is left, and what was called."""
    CALLED.clear()
    results = []
    for _ in range(calls):
        try:
            results.append(program(torch.ones(2), iterator).tolist())
        except StopIteration:
            results.append("over")
    called = list(CALLED)
    return results, list(itertools.islice(iterator, 5)), called


@pytest.mark.parametrize("program", [next_one, two, all_of_it])
@pytest.mark.parametrize("name", FINITE)
def test_finite(name, program):
    stator.reset()
    compiled = stator.compile(program, fullgraph=True, backend="eager")
    assert run(compiled, FINITE[name](), 4) == run(program, FINITE[name](), 4)


@pytest.mark.parametrize("program", [next_one, two])
@pytest.mark.parametrize("name", INFINITE)
def test_infinite(name, program):
    stator.reset()
    compiled = stator.compile(program, fullgraph=True, backend="eager")
    assert run(compiled, INFINITE[name](), 8) == run(program, INFINITE[name](), 8)
    assert stator.stats()["graphs"] <= 3


def test_a_list_that_a_chain_will_come_to():
    later = [2.0]
    chained = itertools.chain([1.0], later)

    def program(x):
        later.append(3.0)
        return x + next(chained) + next(chained) + next(chained)

    assert stator.compile(program, backend="eager")(torch.zeros(1)).item() == 6


def test_an_iterator_below_that_the_program_has_too():
    below = iter(numbers())
    above = map(doubled, below)

    def program(x):
        return x + next(above) + next(below) + next(above)

    expected_below = iter(numbers())
    expected = 2 * next(expected_below) + next(expected_below) + 2 * next(expected_below)
    assert stator.compile(program, backend="eager")(torch.zeros(1)).item() == expected
    assert next(below) == next(expected_below)


@pytest.mark.parametrize("later", [{"a": 3.0, "b": 4.0}, OrderedDict(a=3.0, b=4.0)], ids=["dict", "OrderedDict"])
def test_a_chain_that_goes_on_with_a_view_is_a_break_of_its_own(later):
    def program(x):
        chained = itertools.chain([1.0, 2.0], later.values())
        stator.graph_break()
        for value in chained:
            x = x * 2 + value
        return x

    stator.reset()
    assert stator.compile(program, backend="eager")(torch.zeros(1)).item() == program(torch.zeros(1)).item()
    assert {event.break_id for event in events.events("break")} == {"graph-break-requested", "outside-iterator"}
