"""Special methods that are objects with state: C finds them by itself, and what they do is an effect of the call."""

from __future__ import annotations

import functools
from unittest.mock import MagicMock

import pytest
import torch

import stator


class Counting:
    def __init__(self, result=None):
        self.result, self.given = result, []

    def __call__(self, *args):
        self.given.append(len(args))
        return self.result


class Binding(Counting):
    def __get__(self, instance, owner=None):
        self.given.append("bound")
        return lambda *args: self.result


class Keeper:
    def __init__(self):
        self.rows = [3, 4]

    def row(self, index):
        self.rows.append(index)
        return self.rows[index]


def entered(x, t):
    with t:
        return x + len(t), bool(t), 1 in t, list(t)


def calculated(x, t):
    return x + (t + 1), 1 + t, -t, t == 2, t < 2, t[0], int(t), [1, 2, 3][t], f"{t}", hash(t)


def called(x, t):
    t[0] = 1
    return x + t(2), t.missing, round(t), abs(t)


def made(kind):
    results = {
        "__enter__": None, "__exit__": False, "__len__": 3, "__bool__": True, "__contains__": True,
        "__iter__": iter(()), "__add__": 5, "__radd__": 6, "__neg__": 7, "__eq__": True, "__lt__": False,
        "__getitem__": 8, "__int__": 9,
        "__index__": 2, "__format__": "t", "__hash__": 11, "__setitem__": None, "__call__": 4, "__getattr__": 12,
        "__round__": 13, "__abs__": 14,
    }  # fmt: skip
    return type("Made", (), {name: kind(result) for name, result in results.items()})()


def both(program, start, told, calls=3):
    """What three calls do to a fresh object of `start`, in eager and compiled."""
    seen = []
    for run in (program, stator.compile(program, backend="eager")):
        objects = start()
        seen.append([(repr(run(torch.ones(2), *objects)), told(*objects)) for _ in range(calls)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("kind", [Counting, Binding])
@pytest.mark.parametrize("program", [entered, calculated, called])
def test_objects_as_special_methods(program, kind):
    def told(t):
        return {name: list(value.given) for name, value in vars(type(t)).items() if isinstance(value, Counting)}

    both(program, lambda: (made(kind),), told)


def test_bound_methods_as_special_methods():
    def start():
        keeper = Keeper()
        names = {
            "__getitem__": keeper.row,
            "__len__": keeper.rows.__len__,
            "__call__": functools.partial(Keeper.row, keeper),
        }
        return type("Table", (), names)(), keeper

    def program(x, table, keeper):
        return x + table[0] + len(table), table(1)

    both(program, start, lambda table, keeper: list(keeper.rows))


def test_mocks_record_calls():
    def program(x, mock):
        with mock:
            return x + len(mock)

    def told(mock):
        own = [mock.__enter__, mock.__exit__, mock.__len__]
        return [one.call_count for one in own], [name for name, *_ in mock.mock_calls], len(own[0].call_args_list)

    def start():
        mock = MagicMock()
        with mock:
            len(mock)
        return (mock,)

    both(program, start, told, calls=5)


class Registry(dict):
    def __call__(self, power):
        def register(function):
            self[function.__name__] = power
            return function

        return register


class Adding(Registry):
    """Called as a special method as well, which C does with the real one."""

    def __call__(self, other):
        self[len(self)] = other
        return 3


def test_names_of_the_programs_own_are_no_special_methods():
    def start():
        class Manifold:
            __scaling__ = Registry()

            @__scaling__(2)
            def distance(self, x):
                return x * 2

        return (Manifold(),)

    def program(x, manifold):
        scaling = manifold.__scaling__
        scaling["calls"] = scaling.get("calls", 0) + 1
        return manifold.distance(x) ** scaling["distance"], len(type(manifold).__scaling__)

    def told(manifold):
        return dict(manifold.__scaling__)

    stator.reset()
    both(program, start, told)
    assert stator.stats()["graph_breaks"] == 0


def test_containers_as_special_methods():
    def program(x, thing):
        return x + (thing + 1), dict(thing.__add__)

    both(program, lambda: (type("Thing", (), {"__add__": Adding()})(),), lambda thing: dict(thing.__add__))
