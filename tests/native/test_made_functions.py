"""Functions, cells and classes that the program makes end when the program lets go of them, not with the capture."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


class Thing:
    pass


def a_function(x: Any) -> Any:
    def made() -> None: ...

    reference = weakref.ref(made)
    before = reference() is made
    del made
    return x + 1, before, reference() is None


def a_called_function(x: Any) -> Any:
    def made(y: Any) -> Any:
        return y + 1

    for _ in range(3):
        x = made(x)
    reference = weakref.ref(made)
    del made
    return x, reference() is None


def what_a_closure_held(x: Any) -> Any:
    def make() -> tuple[Any, Any]:
        thing = Thing()
        return weakref.ref(thing), lambda: thing

    reference, held = make()
    before = reference() is held()
    del held
    return x + 1, before, reference() is None


def a_callback(x: Any) -> Any:
    told = []

    def made() -> None: ...

    reference = weakref.ref(made, lambda _: told.append("gone"))
    del made
    told.append("after")
    return x + 1, told, reference() is None


def a_cache(x: Any) -> Any:
    @functools.lru_cache
    def made(n: int) -> int:
        return n

    reference = weakref.ref(made)
    made(3)
    del made
    gc.collect()
    return x + 1, reference() is None


def a_class(x: Any) -> Any:
    class Made:
        def double(self) -> int:
            return 2

    told: list[str] = []
    reference = weakref.ref(Made)
    other = weakref.ref(Made, lambda _: told.append("gone"))
    y = x + Made().double()
    del Made
    gc.collect()
    return y, reference() is None, other() is None, told


def a_class_that_lives(x: Any) -> Any:
    class Made:
        def double(self) -> int:
            return 2

    one = Made()
    gc.collect()
    return x + one.double(), type(one) is Made, isinstance(one, Made)


def how_many_references(x: Any) -> Any:
    def made() -> None: ...

    made()
    found = [weakref.getweakrefcount(made), len(weakref.getweakrefs(made))]
    reference = weakref.ref(made)
    found += [weakref.getweakrefcount(made), weakref.getweakrefs(made) == [reference]]
    del reference
    return x + 1, [*found, weakref.getweakrefcount(made)]


def whose_callback(x: Any) -> Any:
    thing = Thing()

    def callback(_: Any) -> None: ...

    return x + 1, weakref.ref(thing, callback).__callback__ is callback, weakref.ref(thing).__callback__ is None


def same_address(x: Any) -> Any:
    """The next function may lie where the last one lay."""
    found = []
    for n in range(5):

        def made(y: Any, n: int = n) -> Any:
            return y + n

        found.append(made(x))
    return found


def makes_counter() -> tuple[Callable[[], int], Callable[[], int]]:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    return add, lambda: count


ADD, COUNT = makes_counter()


def shares_outside_cells(x: Any) -> Any:
    """A function that the program makes of cells from outside."""
    ADD()
    made = type(COUNT)(COUNT.__code__, globals(), "made", None, COUNT.__closure__)
    x = x + made()
    del made
    ADD()
    return x + COUNT()


def a_variable_of_a_frame_that_asked(x: Any) -> Any:
    def ask(look: Callable[[Any], Any]) -> Any:
        thing = Thing()
        look(thing)
        return weakref.ref(thing)

    looks: list[Callable[[Any], Any]] = [lambda thing: hasattr(thing, "missing")]
    looks += [lambda thing: getattr(thing, "missing", 1), lambda thing: Falls().name]
    return x + 1, [ask(look)() is None for look in looks]


class Falls:
    @property
    def name(self) -> Any:
        raise AttributeError("none")

    def __getattr__(self, name: str) -> Any:
        return name


PROGRAMS = [a_function, a_called_function, what_a_closure_held, a_callback, a_cache, a_class, a_class_that_lives]
PROGRAMS += [how_many_references, whose_callback, same_address, a_variable_of_a_frame_that_asked]


@pytest.mark.parametrize("program", PROGRAMS)
def test_ends(program: Callable[[Any], Any]) -> None:
    check(program, torch.ones(2), fullgraph=True)
    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


def test_outside_cells() -> None:
    compiled = stator.compile(shares_outside_cells, backend="eager", fullgraph=True)
    found = [compiled(torch.zeros(1)).item() for _ in range(3)]
    assert found == [1.0 + 2, 3.0 + 4, 5.0 + 6]
