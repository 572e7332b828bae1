"""State of outside objects that C keeps: it is guarded where the program reads it, and changes of it last."""

from __future__ import annotations

import array
import contextlib
import contextvars
import ctypes
import datetime
import functools
import gc
import operator
import re
import sqlite3
import struct
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stator
from tests.harness import check

Program = tuple[Callable[[Any], Any], Callable[[], Any]]  # what is compiled, and what happens between its calls


class Config(types.SimpleNamespace):
    """One that the program made a class of."""

    @property
    def doubled(self) -> int:
        return self.n * 2

    def step(self) -> Config:
        self.n += 1
        return self


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float * 2))


def namespace_read() -> Program:
    config = types.SimpleNamespace(n=1, inner=types.SimpleNamespace(m=2), me=None)
    config.me = config
    return lambda x: (x + config.me.n + config.inner.m, repr(config.inner)), lambda: vars(config.inner).update(m=7)


def namespace_written() -> Program:
    config = types.SimpleNamespace(n=1, t=torch.ones(1))

    def program(x: Any) -> Any:
        config.n += 1
        config.t = config.t + x
        config.seen = [config.n]
        if config.n == 3:
            del config.seen
        return x * config.n, config, sorted(vars(config))

    return program, lambda: setattr(config, "n", config.n + 3)


def namespace_of_a_class() -> Program:
    config = Config(n=1)

    def program(x: Any) -> Any:
        return x * config.step().doubled, repr(config), config == Config(n=2), config

    return program, lambda: setattr(config, "n", 5)


def structure() -> Program:
    pair = Pair(1)

    def program(x: Any) -> Any:
        pair.a += 1
        pair.b[0] = pair.a
        return x + pair.a, pair.b[0]

    return program, lambda: setattr(pair, "a", 5)


def generator_state() -> Program:
    generator = np.random.RandomState(0)
    return lambda x: x + generator.get_state()[2], lambda: generator.rand(3)  # type: ignore[operator,union-attr]


def generator_spawns() -> Program:
    generator = np.random.default_rng(0)
    return lambda x: x + generator.spawn(1)[0].random(), lambda: generator.random()


def class_names() -> Program:
    made = type("Made", (), {})
    return lambda x: (x + 1, made.__name__, made().__class__.__qualname__), lambda: setattr(made, "__name__", "Other")


def subclasses() -> Program:
    base = type("Base", (), {})
    kept = [type("First", (base,), {})]

    def program(x: Any) -> Any:
        found = base.__subclasses__()
        found.reverse()
        return x + len(found), [cls.__name__ for cls in found], found

    return program, lambda: kept.append(type("Second", (base,), {}))


def unchanging_objects() -> Program:
    """Objects that never change themselves are replaced by others."""
    box = types.SimpleNamespace(match=re.match("a(b)", "ab"), struct=struct.Struct("<i"), get=operator.itemgetter(0))
    box.attr, box.call = operator.attrgetter("real"), operator.methodcaller("count", "a")
    others = iter([
        {"match": re.match("a(c)", "ac")}, {"struct": struct.Struct("<q")}, {"get": operator.itemgetter(1)},
        {"attr": operator.attrgetter("imag")}, {"call": operator.methodcaller("count", "b")},
    ])  # fmt: skip

    def program(x: Any) -> Any:
        return x + box.get([1, 2]), box.match.group(1), box.struct.size, box.attr(3 + 4j), box.call("aab")

    return program, lambda: vars(box).update(next(others))


PROGRAMS = [namespace_read, namespace_written, namespace_of_a_class, structure, generator_state, generator_spawns,
            class_names, subclasses, unchanging_objects]  # fmt: skip


@pytest.mark.parametrize("make", PROGRAMS)
def test_same(make: Callable[[], Program]) -> None:
    seen = []
    for compiles in (False, True):
        program, between = make()
        target = stator.compile(program, backend="eager") if compiles else program
        told = []
        for _ in range(5):
            told += [repr(target(torch.ones(1))) for _ in range(2)]
            between()
        seen.append(told)
    assert seen[1] == seen[0]


def test_a_namespace_is_captured_whole() -> None:
    config = types.SimpleNamespace(n=1)

    def program(x: Any) -> Any:
        config.n += 1
        return x * config.n, config

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert [compiled(torch.ones(1))[1] is config for _ in range(3)] == [True] * 3
    assert config.n == 4


def initialized_again(x: Any, connection: Any) -> Any:
    connection.__init__(":memory:")
    return x + 1


def initialized_by_its_class(x: Any, connection: Any) -> Any:
    sqlite3.Connection.__init__(connection, ":memory:")
    return x + 1


@pytest.mark.parametrize("program", [initialized_again, initialized_by_its_class])
def test_slots_that_change_c_objects_run_once_for_each_call(program: Any) -> None:
    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        connection = sqlite3.connect(":memory:")
        connection.execute("create table a (b)")
        compiled(torch.ones(1), connection)
        connection.execute("create table a (b)")


def bounded(x: Any, items: Any) -> Any:
    items.__init__([1, 2, 3], 2)
    return x + 1


def address(x: Any) -> Any:
    items = array.array("b", [1])
    number = ctypes.c_byte.from_address(items.buffer_info()[0])
    items[0] = 2
    return number.value, x + 1


def test_bounds_of_deques_and_addresses_of_arrays() -> None:
    check(bounded, torch.ones(1), deque([1]), fullgraph=False, expect_breaks=None, expect_recompiles=None)
    check(address, torch.ones(1), fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Family:
    pass


class Kind(type):
    pass


def related(x: Any) -> Any:
    local = type("Local", (Family,), {})
    kind = types.new_class("LocalKind", (Kind,))
    with contextlib.suppress(TypeError):
        type("Unmade", (Family,), {"__slots__": ("no name",)})
    return x + 1, local, kind, kind("Member", (local,), {})


@pytest.mark.parametrize("fullgraph", [True, False])
def test_classes_of_a_capture_are_no_subclasses(fullgraph: bool) -> None:
    """Outside classes know those that the program made, and no others, at once."""
    stator.reset()
    gc.collect()
    compiled = stator.compile(related, backend="eager", fullgraph=fullgraph)
    for number in range(1, 3):
        made = [compiled(torch.ones(1)) for _ in range(number)]
        assert Family.__subclasses__() == [local for _, local, *_ in made]
        assert type.__subclasses__(Kind) == [kind for _, _, kind, _ in made]
        Family.shared = number  # type: ignore[attr-defined]
        assert {member.shared for *_, member in made} == {number}
        del made
        gc.collect()
        assert Family.__subclasses__() == []


def test_subclasses_behind_a_break() -> None:
    def program(x: Any) -> Any:
        made = []
        for name in "abcd":
            if name in "bd":
                stator.graph_break()
            made.append(type(name, (Family,), {}))
        return x + 1, Family.__subclasses__() == made, [cls.__name__ for cls in Family.__subclasses__()]

    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        gc.collect()
        assert compiled(torch.ones(1))[1:] == (True, ["a", "b", "c", "d"])


def test_class_methods_of_objects_made_in_c() -> None:
    """They are bound anew each time."""
    stator.reset()
    compiled = stator.compile(lambda x: (x + 1, VARIABLE.__class_getitem__(int)), backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(1))[1] == contextvars.ContextVar[int]
    assert stator.stats()["frames_captured"] == 1


VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE")


class Day(datetime.datetime):
    pass


class Alone(datetime.date):
    pass


class Length(datetime.timedelta):
    pass


class Clock(datetime.time):
    pass


class Property(property):
    pass


class Static(staticmethod):  # type: ignore[type-arg]
    pass


class Format(struct.Struct):
    pass


class Alias(types.GenericAlias):
    pass


class Reference(weakref.ref):  # type: ignore[type-arg]
    pass


class Partial(functools.partial):  # type: ignore[type-arg]
    pass


class Held:
    pass


HELD = [Held(), Held()]
HIDDEN: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {  # how the object is made, what is asked of it
    "datetime": (lambda n: Day(1990, 5, n, fold=n % 2), lambda p: (p.replace(hour=3), p.isoformat(), repr(p), p < DAY)),
    "date": (lambda n: Alone(1990, 5, n), lambda p: (p.weekday(), p + datetime.timedelta(1))),
    "timedelta": (Length, lambda p: (p * 2, -p, p.total_seconds())),
    "time": (Clock, lambda p: (str(p), p.replace(minute=3), p == datetime.time(1))),
    "property": (lambda n: Property(lambda o: n), lambda p: p.__get__(3)),
    "staticmethod": (lambda n: Static(lambda: n), lambda p: p()),
    "struct": (lambda n: Format("bhi"[n]), lambda p: p.pack(5)),
    "alias": (lambda n: Alias([dict, list][n % 2], (int,)), lambda p: (repr(p), p(), p == list[int])),
    "reference": (lambda n: Reference(HELD[n % 2]), lambda p: (p == weakref.ref(HELD[0]), hash(p) == hash(HELD[0]))),
    "partial": (lambda n: Partial(max, n), lambda p: functools.partial(p, 0)()),
}
DAY = datetime.datetime(1990, 5, 2)


@pytest.mark.parametrize("name", HIDDEN)
def test_state_below_a_class_of_the_program(name: str) -> None:
    make, ask = HIDDEN[name]
    compiled = stator.compile(lambda x, p: (x + 1, ask(p)), backend="eager", fullgraph=False)
    for number in (1, 2, 1, 2):
        thing = make(number)
        assert str(compiled(torch.ones(1), thing)[1]) == str(ask(thing))


def test_matches_in_a_buffer() -> None:
    def program(x: Any, found: Any, buffer: Any) -> Any:
        buffer[:] = b"xyz"
        return x + 1, found.group(), found.span()

    compiled, results = stator.compile(program, backend="eager", fullgraph=False), []
    for run in (program, compiled, compiled):
        buffer = bytearray(b"abcdef")
        results.append(run(1, re.search(b"[a-f]+", buffer), buffer))
    assert results == [(2, b"xyz", (0, 6))] * 3
