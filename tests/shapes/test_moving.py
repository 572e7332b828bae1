"""C code that takes numbers out of objects, or puts them into some, leaves them symbols."""

import collections
import functools
import operator
import types
from dataclasses import dataclass

import pytest
import torch

import stator


@dataclass
class Config:
    n: int
    m: int

    def total(self, more):
        return self.n + more


def by_class(config):
    match config:
        case Config(n, m=m):
            return n + m


def in_line(config):
    line = collections.deque([config.n, 2], maxlen=4)
    line.append(config.m)
    return line[0] + line[-1]


def in_default(config):
    table = collections.defaultdict(int, a=config.n)
    table["b"] += config.m
    return table["a"] + table["b"]


WAYS = {
    "attrgetter": operator.attrgetter("n"),
    "two attributes": lambda config: sum(operator.attrgetter("n", "m")(config)),
    "mapped": lambda config: sum(map(operator.attrgetter("n"), [config, config])),
    "itemgetter": lambda config: operator.itemgetter("n")(vars(config)) + operator.itemgetter(0)([config.m]),
    "methodcaller": operator.methodcaller("total", 2),
    "partial": lambda config: functools.partial(getattr, config, "n")(),
    "reduce": lambda config: functools.reduce(operator.mul, [config.n, config.m, 2], 1),
    "match": by_class,
    "namespace": lambda config: types.SimpleNamespace(**vars(config)).n,
    "ordered": lambda config: collections.OrderedDict(vars(config))["n"],
    "counter": lambda config: collections.Counter(vars(config))["n"],
    "deque": in_line,
    "defaultdict": in_default,
}


@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_two_compilations(read):
    def program(x, config):
        return x * read(config)

    compiled = stator.compile(program, fullgraph=True, backend="eager")
    for n in range(3, 9):
        x = torch.randn(2)
        assert torch.equal(compiled(x, Config(n, n + 1)), program(x, Config(n, n + 1)))
    assert stator.stats()["graphs"] == 2
