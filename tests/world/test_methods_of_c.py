"""Methods of C with one name and one receiver may be those of two classes."""

from collections import defaultdict

import torch

import stator


def outcomes(program, receiver, methods):
    """What the methods give, eagerly and compiled once."""

    def of(function):
        return [function(torch.ones(1), method)[1] for method in methods(receiver())]

    return of(stator.compile(program, backend="eager")), of(program)


def kind_of(x, method):
    stator.graph_break()
    return x + 1, type(method()).__name__


def test_of_a_base_class():
    def methods(table):
        return [table.copy, dict.copy.__get__(table), table.copy, dict.copy.__get__(table)]

    for program in (kind_of, lambda x, method: (x, type(method()).__name__)):
        mine, expected = outcomes(program, lambda: defaultdict(int, {1: 2}), methods)
        assert mine == expected == ["defaultdict", "dict", "defaultdict", "dict"]


def test_over_a_break():
    def program(x, table, plain):
        method = dict.copy.__get__(table) if plain else table.copy
        stator.graph_break()
        return type(method()).__name__

    compiled = stator.compile(program, backend="eager")
    table = defaultdict(int, {1: 2})
    for plain in (False, True, False, True):
        assert compiled(torch.ones(1), table, plain) == program(torch.ones(1), table, plain)
