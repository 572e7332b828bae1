"""Strings from outside that change: questions are guarded by the answer, what looks into them is left to CPython."""

import re
import statistics

import pytest
import torch
from torch import nn

from tests.harness import check
from tests.shapes.places import most_per_place

NAMES = ["adam", "sgd", "layer_1", "RMS", "layer_22", "layer_333", "x", "zz", "Adam", "adamw"]


def equal(x, name):
    return x * 2 if name == "adam" else x * 3 if name != "sgd" else x


def one_of(x, name):
    return x * 2 if name in ("adam", "sgd") else x * 3 if name not in {"x", "zz"} else x


def beginning(x, name):
    return (x * 2 if name.startswith("layer_") and "_" in name else x * 3), name.upper(), f"{name.lower()}!"


def truth(x, name):
    return x * 2 if name else x * 3


def handed_on(x, name):
    def inner(x, kind):
        return x * 2 if kind.strip().lower() == "adam" else x * 3

    return inner(x, kind=name), [name.title()], name.replace("_", "-")


@pytest.mark.parametrize("program, ways", [(equal, 3), (one_of, 3), (beginning, 2), (truth, 1), (handed_on, 2)])
def test_as_many_entries_as_answers(program, ways):
    calls = [(torch.ones(2), name) for name in NAMES]
    assert most_per_place(lambda: program, calls) <= ways + 1


def length(x, name):
    return x[:, : len(name)] * len(name)


def split(x, name):
    return x * int(name.split("_")[-1] if "_" in name else 7)


def letters(x, name):
    return x * sum(ord(letter) for letter in name)


def number(x, name):
    return x * ord(name[0]), name[-1], len(re.findall(".", name))


def encoded(x, name):
    return x * torch.tensor(list(name.encode())).sum()


@pytest.mark.parametrize("program", [length, split, letters, number, encoded])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_looks_into_a_text_is_left_to_python(program, backend):
    calls = [(torch.ones(2, 12), name) for name in NAMES]
    assert most_per_place(lambda: program, calls, backend=backend) <= (3 if program in (split, encoded) else 2)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({f"head{i}": nn.Linear(4, 2) for i in range(6)})

    def forward(self, x, name):
        return self.heads[name](x)


class Members(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(6):
            self.add_module(f"head{i}", nn.Linear(4, 2))

    def forward(self, x, name):
        return getattr(self, name)(x)


class Table(nn.Module):
    scales = {f"head{i}": i / 2 for i in range(6)}  # noqa: RUF012

    def forward(self, x, name):
        return x * self.scales[name]


@pytest.mark.parametrize("kind", [Heads, Members, Table])
def test_one_of_many_by_name(kind):
    calls = [(torch.ones(3, 4), f"head{i % 6}") for i in range(8)]
    assert most_per_place(kind, calls) == 2


def test_other_texts_as_keys():
    def program(x, name):
        return {name: x + 1}

    assert most_per_place(lambda: program, [(torch.ones(2), name) for name in NAMES]) <= 5


def refused(x, name):
    try:
        return x, name.replace(1, 2)
    except TypeError as error:
        return str(error)


def missing(x, name):
    try:
        return x, name.nothing()
    except AttributeError as error:
        return str(error)


def absent(x, name):
    try:
        return x, name.index("?")
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("program", [refused, missing, absent])
def test_errors_are_those_of_the_text(program):
    calls = [(torch.ones(2), name) for name in NAMES[:4]]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)


def spread(x, value):
    return x * statistics.mean([value, 2 * value, 0.5]) + statistics.pstdev([value, 1.5])


def exactly(x, value):
    return x * value.as_integer_ratio()[1], value.hex()


@pytest.mark.parametrize("program", [spread, exactly])
def test_methods_of_floats_are_left_to_python(program):
    calls = [(torch.ones(2), value) for value in (0.25, 0.75, 1.5, 3.25, 2.5, 0.125)]
    assert most_per_place(lambda: program, calls) <= 3


def width(x, name):
    return x * 2, name.zfill(5)


def no_width(x, name):
    return x * 2, name.zfill(5.0)


def test_equal_arguments_of_another_type_are_others():
    for program in (width, no_width):
        calls = [(torch.ones(2), name) for name in NAMES[:4]]
        check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
