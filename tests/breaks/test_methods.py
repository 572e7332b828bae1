"""Breaks inside methods that operators, attributes and builtins call: they go on inside, and then in the caller."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

X = torch.arange(3.0)


def broken(value: Any) -> Any:
    """Work on both sides of a break."""
    value = value + 1
    stator.graph_break()
    return value * 2


class Plain:
    def __get__(self, instance: Any, owner: Any) -> Any:
        return broken(instance.x)

    def __set__(self, instance: Any, value: Any) -> str:
        instance.x = broken(value)
        return "nobody sees this"


class Vector:
    plain = Plain()

    def __init__(self, x: Any) -> None:
        self.x = x

    def __add__(self, other: Any) -> Any:
        return broken(self.x) + other

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Any:
        self.x = broken(self.x) + other
        return self

    def __lt__(self, other: Any) -> Any:
        return broken(self.x) < other

    def __neg__(self) -> Any:
        return broken(self.x)

    def __getitem__(self, key: Any) -> Any:
        return broken(self.x) + key

    def __setitem__(self, key: Any, value: Any) -> str:
        self.x = broken(self.x) + value
        return "nobody sees this"

    def __contains__(self, value: Any) -> Any:
        self.x = broken(self.x)
        return "yes"

    def __next__(self) -> Any:
        return broken(self.x)

    @property
    def twice(self) -> Any:
        return broken(self.x)

    @twice.setter
    def twice(self, value: Any) -> str:
        self.x = broken(value)
        return "nobody sees this"


def adding(x: Any) -> Any:
    return (Vector(x.cos()) + 3).sin()


def reflected(x: Any) -> Any:
    return (3 + Vector(x.cos())).sin()


def in_place(x: Any) -> Any:
    made = Vector(x.cos())
    made += 3
    return made.x.sin()


def comparing(x: Any) -> Any:
    return (Vector(x.cos()) < 3).sin()


def negative(x: Any) -> Any:
    return (-Vector(x.cos())).sin()


def item(x: Any) -> Any:
    return Vector(x.cos())[3].sin()


def stored_item(x: Any) -> Any:
    made = Vector(x.cos())
    made[3] = 4
    return made.x.sin()


def contained(x: Any) -> Any:
    made = Vector(x.cos())
    return 3 in made, made.x.sin()


def not_contained(x: Any) -> Any:
    made = Vector(x.cos())
    return 3 not in made, made.x.sin()


def following(x: Any) -> Any:
    return next(Vector(x.cos())).sin()


def descriptor(x: Any) -> Any:
    return Vector(x.cos()).plain.sin()


def stored_descriptor(x: Any) -> Any:
    made = Vector(x)
    made.plain = x.cos()
    return made.x.sin()


def stored_property(x: Any) -> Any:
    made = Vector(x)
    made.twice = x.cos()
    return made.x.sin()


def partially(x: Any) -> Any:
    return functools.partial(Vector.__getitem__, key=3)(Vector(x.cos())).sin()


class Making(type):
    def __call__(cls, x: Any, *, more: Any = 0) -> Any:
        made = super().__call__(broken(x) + more)
        made.x = made.x.tan()
        return made


class Made(Vector, metaclass=Making):
    pass


def made_by_a_metaclass(x: Any) -> Any:
    return Made(x.cos(), more=3).x.sin()


class Refusing(type):
    def __call__(cls, x: Any) -> Any:
        raise ValueError(cls.__name__, broken(x))


class Refused(metaclass=Refusing):
    pass


def refused_by_a_metaclass(x: Any) -> Any:
    try:
        return Refused(x.cos())
    except ValueError as error:
        return error.args[0], error.args[1].sin()


PROGRAMS = (
    adding, reflected, in_place, comparing, negative, item, stored_item, contained, not_contained, following,
    descriptor, stored_descriptor, stored_property, partially, made_by_a_metaclass, refused_by_a_metaclass,
)  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_two_graphs(fn: Callable[..., Any]) -> None:
    check(fn, X, fullgraph=False, expect_graphs=2, expect_breaks=1)


class Undecided:
    """Answers NotImplemented after a break."""

    def no(self, other: Any) -> Any:
        stator.graph_break()
        return NotImplemented

    __add__ = __iadd__ = __sub__ = __eq__ = __lt__ = __rmul__ = no
    __hash__ = None  # type: ignore[assignment]

    def __isub__(self, other: Any) -> Any:
        stator.graph_break()
        return NotImplemented


class Other:
    def __radd__(self, other: Any) -> Any:
        stator.graph_break()
        return "added", type(other).__name__

    def __gt__(self, other: Any) -> Any:
        return "greater"


def add_in_place(left: Any, right: Any) -> Any:
    left += right
    return left


OPERATIONS = (
    lambda left, right: left + right,
    lambda left, right: left - right,
    lambda left, right: left == right,
    lambda left, right: left != right,
    lambda left, right: left < right,
    lambda left, right: 2 * left,
    add_in_place,
)


def undecided(x: Any) -> Any:
    left, found = Undecided(), []
    for right in (Other(), left, 3):
        for operation in OPERATIONS:
            try:
                found.append(operation(left, right))
            except TypeError as error:
                found.append(str(error))
    return [left if value is left else value for value in found], x + 1


def test_not_implemented() -> None:
    check(undecided, X, fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Falling:
    @property
    def first(self) -> Any:
        stator.graph_break()
        raise AttributeError("first")

    def __getattr__(self, name: str) -> Any:
        return f"instead of {name}"


def falling_back(x: Any) -> Any:
    return Falling().first, x + 1


def test_a_property_that_raises_for_getattr() -> None:
    check(falling_back, X, fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Absent:
    def __init__(self, make):
        self.make = make

    def __getattr__(self, name):
        if name != "width":
            raise AttributeError(name)
        stator.graph_break()
        raise self.make()


class Failing(Absent):
    @property
    def width(self):
        return self.make.width


@pytest.mark.parametrize("make", [AttributeError, lambda: AttributeError(name="told"), lambda: ValueError("other")])
def test_attribute_errors_behind_a_break_say_what_was_sought(make):
    def plainly(x, o):
        try:
            return x + o.width
        except AttributeError as error:
            return x + 1, error.name, error.obj is o, str(error), error.__context__

    def by_name(x, o):
        try:
            return x + getattr(o, "width")  # noqa: B009
        except AttributeError as error:
            return x + 1, error.name, error.obj is o, str(error), error.__context__

    for program in (plainly, by_name):
        check(program, torch.ones(1), Absent(make), fullgraph=False, expect_breaks=None, expect_recompiles=None)
        failing = Failing(Absent(make))
        check(program, torch.ones(1), failing, fullgraph=False, expect_breaks=None, expect_recompiles=None)


@stator.disable
def sought_elsewhere(make):
    raise make()


class Elsewhere(Absent):
    def __getattr__(self, name):
        if name != "width":
            raise AttributeError(name)
        found = self.look_up()
        return found

    def look_up(self):
        return sought_elsewhere(self.make)


NAME = "width"
ASKING = [lambda o: o.width, lambda o: getattr(o, NAME), lambda o: getattr(o, NAME, 3), lambda o: hasattr(o, NAME)]


@pytest.mark.parametrize("make", [AttributeError, lambda: AttributeError(name="told"), lambda: ValueError("other")])
@pytest.mark.parametrize("ask", ASKING)
def test_an_attribute_error_that_the_broken_instruction_raises(ask, make):
    """It is no answer where nobody has another one."""

    def program(x, o):
        try:
            return x + ask(o)
        except AttributeError as error:
            return x + 1, error.name, error.obj is o, str(error), error.__context__

    def handling(x, o):
        try:
            raise KeyError(3)
        except KeyError:
            try:
                return x + ask(o)
            except AttributeError as error:
                return x + 1, error.name, error.obj is o, repr(error.__context__), sys.exc_info()[0]

    def bare(x, o):
        y = x + 1
        ask(o)
        return y

    for one in (program, handling, bare):
        check(one, torch.ones(1), Elsewhere(make), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def of_arrays(x: torch.Tensor) -> Any:
    array = x.numpy()
    total, turned = array.sum, array.reshape
    stator.graph_break()
    return total(), turned(-1, 1), x + 1


def of_tensors_in_a_dict(x: torch.Tensor) -> Any:
    y = x + 1
    methods = {"total": y.sum, "doubled": y.mul_}
    stator.graph_break()
    methods["doubled"](2)
    return methods["total"](), y


@pytest.mark.parametrize("program", [of_arrays, of_tensors_in_a_dict])
def test_methods_that_c_has_kept_over_a_break(program: Any) -> None:
    with events.recording("error") as wrong:
        check(program, torch.ones(3), fullgraph=False, expect_breaks=1, expect_graphs=None, expect_recompiles=None)
    assert not wrong
