"""Tables by device, dtype and the like: keys that are made anew in each call are found by the guards."""

import gc
import weakref

import pytest
import torch

import stator
from stator.report import events


class Kind:
    """Equal to itself alone."""


class Named:
    """Equal to what has the same name, as its own code says."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == getattr(other, "name", None)

    def __hash__(self):
        return 7


KIND = Kind()
KEYS = {
    "device": lambda x: x.device,
    "device and size": lambda x: (x.shape, x.device),
    "device and dtype": lambda x: (x.shape[0], x.device, x.dtype),
    "layout": lambda x: (x.layout, 1),
    "object": lambda x: (KIND, "a"),
    "class": lambda x: (Kind, "a"),
    "function": lambda x: (torch.relu, 1),
    "range": lambda x: range(3),
    "set": lambda x: frozenset([x.dtype, x.device]),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_table_that_is_looked_up(key):
    def program(x, table):
        return x * table[key(x)]

    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(3), {key(torch.ones(3)): 2.5, "other": 1}).tolist() == [2.5] * 3
    assert len(compiled.entries()) == 1
    assert not events.events("error")


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_table_that_is_filled(key):
    table = {}

    def program(x):
        if key(x) not in table:
            table[key(x)] = x + 1
        return x * table[key(x)]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert [compiled(torch.ones(3)).tolist() for _ in range(4)] == [[2.0] * 3] * 4
    assert len(compiled.entries()) == 2


def test_keys_that_say_themselves_what_they_equal():
    def program(x, table):
        return x * table[Named("a")]

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for factor in (2.0, 3.0):
        assert compiled(torch.ones(1), {Named("b"): 1.0, Named("a"): factor}).item() == factor


def test_keys_end_when_the_program_lets_go_of_them():
    class Key:
        pass

    def f(x, table):
        return x + sum(table.values()), [type(key).__name__ for key in table]

    compiled = stator.compile(f, backend="eager")
    table = {Key(): 1, Key(): 2}
    assert compiled(torch.ones(1), table)[0] == 4
    seen = weakref.ref(next(iter(table)))
    table.clear()
    gc.collect()
    assert seen() is None
