"""Programs of all kinds, compared with eager in everything that can be observed."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
from typing import Any

import pytest
import torch
from torch import nn

from tests.harness import check

COUNTER = 0
SETTINGS: dict[str, Any] = {"scale": 2.0, "names": ["a", "b"]}
T = torch.arange(6.0).reshape(2, 3)


def x(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, math.prod(shape or (4,))).reshape(shape or (4,))


class Point:
    limit = 3
    shared: list[int] = []

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    @property
    def total(self) -> Any:
        return self.a + self.b

    @classmethod
    def make(cls, a: Any) -> Point:
        return cls(a, a)

    @staticmethod
    def twice(v: Any) -> Any:
        return v * 2

    def __add__(self, other: Any) -> Any:
        return type(self)(self.a + other.a, self.b + other.b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.b == other.b

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, v: Any) -> Any:
        return v * self.b

    def __getattr__(self, name: str) -> Any:
        if name.startswith("dyn_"):
            return len(name)
        raise AttributeError(name)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Config:
    size: int = 4
    items: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


Pair = collections.namedtuple("Pair", "left right")


def closure(v: torch.Tensor) -> Any:
    k = 2.0
    fs = [lambda t, i=i: t * k + i for i in range(3)]
    k = 3.0
    return [f(v) for f in fs]


def generators(v: torch.Tensor) -> Any:
    def gen(n: int) -> Any:
        got = []
        try:
            for i in range(n):
                got.append((yield v * i))
        finally:
            got.append("end")
        return got

    g = gen(3)
    out = [next(g), g.send("a"), g.send("b")]
    try:
        g.send("c")
    except StopIteration as stop:
        out.append(stop.value)
    return out, list(itertools.islice(gen(5), 2)), sum(gen(3))


def classes(v: torch.Tensor) -> Any:
    class Meta(type):
        def __new__(mcs, name: str, bases: Any, ns: Any, **kw: Any) -> Any:
            ns["tag"] = kw.get("tag", 0)
            return super().__new__(mcs, name, bases, ns)

        def __init__(cls, name: str, bases: Any, ns: Any, **kw: Any) -> None:
            super().__init__(name, bases, ns)

    class Base(metaclass=Meta, tag=3):
        def run(self, t: Any) -> Any:
            return t + self.tag

    class Derived(Base, tag=5):
        def run(self, t: Any) -> Any:
            return super().run(t) * 2

    return Derived().run(v), Base().run(v), Derived.tag


def exceptions(v: torch.Tensor) -> Any:
    log = []
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("wrapped") from error
        finally:
            log.append("finally")
    except ValueError as error:
        log.append((str(error), repr(error.__cause__), error.__suppress_context__))
    with contextlib.suppress(ZeroDivisionError):
        log.append(1 / 0)
    try:
        raise ExceptionGroup("g", [TypeError("t"), OSError("o")])
    except* TypeError as group:
        log.append(repr(group))
    except* OSError as group:
        log.append(repr(group))
    return v + len(log), log


def matching(v: torch.Tensor) -> Any:
    def kind(value: Any) -> Any:
        match value:
            case Point(a=a, b=0):
                return ("origin", a)
            case [first, *rest]:
                return ("sequence", first, rest)
            case {"key": k, **others}:
                return ("mapping", k, others)
            case int() | float() as number if number > 3:
                return ("big", number)
            case _:
                return "other"

    return v, [kind(s) for s in (Point(1, 0), [1, 2, 3], {"key": 1, "z": 2}, 5, 2)]


def sorting(v: torch.Tensor) -> Any:
    words = ["pear", "fig", "apple"]
    return v * len(sorted(words, key=len)), sorted(words, key=lambda w: (len(w), w)), max(words, key=lambda w: w[-1])


def global_write(v: torch.Tensor) -> Any:
    global COUNTER
    COUNTER += 1
    return v + COUNTER


def mutate_arguments(lst: list[Any], dct: dict[str, Any], st: set[int], p: Point, v: torch.Tensor) -> Any:
    lst.append(v)
    lst[0] = "changed"
    dct["new"] = lst
    del dct["old"]
    st.add(9)
    st.discard(1)
    p.a = v * 2
    p.c = dct
    v.add_(1)
    return lst, p.total


def alias(v: torch.Tensor) -> Any:
    inner = [v]
    node: list[Any] = [inner, inner]
    node.append(node)
    return node, inner, {"i": inner}


def instance_out(v: torch.Tensor) -> Any:
    p = Point(v, 1)
    q = Point(p, [p])
    return q


def escaping_functions(v: torch.Tensor) -> Any:
    n = 0

    def bump() -> Any:
        nonlocal n
        n += 1
        return n

    def get() -> Any:
        return n

    bump()
    return bump, get, functools.partial(operator.add, v)


def use_escaped(v: torch.Tensor) -> Any:
    bump, get, add = escaping_functions(v)
    return bump(), get(), add(1)


def printing(v: torch.Tensor) -> Any:
    print("before", v.shape, end=";")
    w = v + 1
    print("sum", w.sum())
    return w


def attributes(p: Point, v: torch.Tensor) -> Any:
    return (
        p.total + v,
        p.dyn_abc,
        Point.twice(v),
        Point.make(v).total,
        p(v),
        hasattr(p, "zzz"),
        getattr(p, "q", 7),
        p.limit,
    )


def slots(s: Slotted, v: torch.Tensor) -> Any:
    s.b = s.a * v
    return s.b, hasattr(s, "b")


def containers(v: torch.Tensor) -> Any:
    d = collections.OrderedDict(a=v)
    d.move_to_end("a")
    dd: Any = collections.defaultdict(list)
    dd["k"].append(v)
    c = collections.Counter("abca")
    q = collections.deque([1, 2, v], maxlen=2)
    q.rotate(1)
    return d, dd, c, q, Pair(v, 2), Config(), (*range(3), v), {**{"a": 1}, "b": v}, frozenset([1, 2])


def comprehension(v: torch.Tensor) -> Any:
    return [a * b for a in v for b in (1, 2) if b > 1], {str(i): v[i] for i in range(2)}, {i % 2 for i in range(5)}


def strings(v: torch.Tensor) -> Any:
    return f"{v.shape} {v.dtype!r:>20} {3.14159:.2f}", "%s-%d" % ("a", 3), "{:>5}".format("x"), v


def loop(v: torch.Tensor) -> Any:
    i = 0
    while True:
        i += 1
        if i == 2:
            continue
        if i > 5:
            break
        v = v * i
    else:
        v = v * 0
    return v


def enums(c: Colour, v: torch.Tensor) -> Any:
    return v if c is Colour.RED else v * c.value, c.name, Colour["BLUE"], list(Colour)


def deep(cfg: dict[str, Any], v: torch.Tensor) -> Any:
    return v * cfg["a"]["b"][1]["c"], cfg["a"]["b"][0]


def coroutines(v: torch.Tensor) -> Any:
    async def leaf(n: int) -> Any:
        return v * n

    async def root() -> Any:
        return [await leaf(i) for i in range(3)]

    try:
        root().send(None)
    except StopIteration as stop:
        return stop.value


def recursion(v: torch.Tensor) -> Any:
    def fact(n: int) -> int:
        return 1 if n < 2 else n * fact(n - 1)

    def forever() -> Any:
        return forever()

    try:
        forever()
    except RecursionError:
        return v * fact(6)


def copies(p: Point, v: torch.Tensor) -> Any:
    q = copy.copy(p)
    r = copy.deepcopy([1, {"a": (2, [3])}])
    q.a = v
    return q.a, p.a, r


def partials(f: Any, v: torch.Tensor) -> Any:
    g = functools.partial(f, 1, k=2)
    return {g: 1}[g], g.func is f, g.args, g.keywords, functools.reduce(lambda a, b: a + b, [v, v, v])


def starred(*args: Any, **kwargs: Any) -> Any:
    a, *b, c = args
    return a + c, b, sorted(kwargs)


def default_cache(v: torch.Tensor, cache: dict[str, Any] = {}) -> Any:  # noqa: B006
    cache["n"] = cache.get("n", 0) + 1
    return v


def no_tensors(a: int) -> Any:
    return [a, a + 1], {"k": a}


def class_attribute(v: torch.Tensor) -> Any:
    Point.shared.append(1)
    return v + len(Point.shared)


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (closure, (x(),)),
    (generators, (x(),)),
    (classes, (x(),)),
    (exceptions, (x(),)),
    (matching, (x(),)),
    (sorting, (x(),)),
    (mutate_arguments, ([0, 1], {"old": 1, "k": 2}, {1, 2}, Point(1, 2), x())),
    (alias, (x(),)),
    (instance_out, (x(),)),
    (use_escaped, (x(),)),
    (printing, (x(),)),
    (attributes, (Point(1, 2), x())),
    (slots, (Slotted(3), x())),
    (containers, (x(),)),
    (comprehension, (x(),)),
    (strings, (x(),)),
    (loop, (x(),)),
    (enums, (Colour.BLUE, x())),
    (deep, ({"a": {"b": [1, {"c": 2.5}]}}, x())),
    (coroutines, (x(),)),
    (recursion, (x(),)),
    (copies, (Point(1, 2), x())),
    (partials, (pow, x())),
    (starred, (x(), 1, 2, x())),
    (no_tensors, (3,)),
]


@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_program(program: Any, args: tuple[Any, ...]) -> None:
    check(program, *args)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("steps", torch.zeros(()))
        self.act = nn.GELU()

    def forward(self, v: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        self.steps += 1
        for layer in self.layers:
            v = self.act(layer(v)) * scale
        return self.norm(v)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_module(backend: str) -> None:
    check(Net(), x(3, 4), backend=backend)


def test_keyword() -> None:
    check(Net().eval(), x(3, 4), kwargs={"scale": 0.5})
