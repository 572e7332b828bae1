"""The compiled function object: calls, entries, binding, introspection, memory."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from typing import Any

import pytest

from stator._entry import Compiled, GuardProgram
from stator.guards import GuardSet, Path, arg
from stator.guards.check import EQ, TYPE_IS


def entry_for(value: Any, loads: list[Path] | None = None, npos: int = 1) -> GuardProgram:
    guards = GuardSet()
    guards.call_shape(npos)
    guards.add(arg(npos - 1), EQ, value)
    return guards.compile([arg(i) for i in range(npos)] if loads is None else loads)


def missed(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    return "miss", args, kwargs


def test_call() -> None:
    def user(x: int) -> int:
        """What it does."""
        return x

    compiled = Compiled(user, missed)
    assert compiled(1) == ("miss", (1,), None)
    assert compiled(1, 2, a=3, b=4) == ("miss", (1, 2), {"a": 3, "b": 4})
    assert compiled() == ("miss", (), None)
    compiled.append(entry_for(1), lambda x: ("one", x))
    compiled.append(entry_for(2), lambda x: ("two", x))
    assert compiled(1) == ("one", 1)
    assert compiled(2) == ("two", 2)
    assert compiled(*[2]) == ("two", 2)
    assert compiled(3) == ("miss", (3,), None)
    assert compiled(x=2) == ("miss", (), {"x": 2})


def test_keywords_in_call_order() -> None:
    guards = GuardSet()
    guards.call_shape(1, ("b", "a"))
    guards.add(arg(2), EQ, "A")
    compiled = Compiled(missed, missed)
    compiled.append(guards.compile([arg(2), arg(1), arg(0)]), lambda *values: values)
    assert compiled(0, b="B", a="A") == ("A", "B", 0)
    assert compiled(0, a="A", b="B")[0] == "miss"
    assert compiled(*(0,), **{"b": "B", "a": "A"}) == ("A", "B", 0)


def test_one_that_hits_twice_in_a_row_comes_first() -> None:
    compiled = Compiled(missed, missed)
    programs = [entry_for(value) for value in range(4)]
    for program in programs:
        compiled.append(program, lambda x: x)

    def order() -> list[int]:
        return [programs.index(program) for program, _ in compiled.entries()]

    assert order() == [3, 2, 1, 0]
    compiled(1)
    compiled(2)
    compiled(1)
    assert order() == [3, 2, 1, 0]  # in turn: none of them is worth more than the others
    compiled(1)
    assert order() == [1, 3, 2, 0]
    compiled(2)
    compiled(9)
    assert order() == [1, 3, 2, 0]
    compiled.remove(1)
    assert order() == [1, 2, 0]
    with pytest.raises(IndexError):
        compiled.remove(3)
    compiled.clear()
    assert order() == [] and compiled(1)[0] == "miss"


def test_method() -> None:
    class Thing:
        def __init__(self) -> None:
            self.hits: list[Any] = []

        run = Compiled(lambda self, x: None, missed)

    def hit(self: Thing, x: int) -> str:
        self.hits.append(x)
        return "hit"

    Thing.run.append(entry_for(5, npos=2), hit)
    thing = Thing()
    assert thing.run(5) == "hit"
    bound = thing.run
    assert bound(5) == "hit" and thing.hits == [5, 5]
    assert bound.__self__ is thing and bound.__func__ is Thing.run
    assert Thing.run(thing, 5) == "hit"
    assert thing.run(6) == ("miss", (thing, 6), None)


def test_introspection() -> None:
    def user(x: int, *, y: str = "a") -> None:
        """What it does."""

    user.mark = 3  # type: ignore[attr-defined]
    compiled = Compiled(user, missed)
    assert compiled.__name__ == "user" and compiled.__doc__ == "What it does."
    assert compiled.__qualname__ == user.__qualname__ and compiled.__module__ == __name__
    assert compiled.__wrapped__ is user and inspect.signature(compiled) == inspect.signature(user)
    assert compiled.mark == 3  # type: ignore[attr-defined]
    compiled.other = 4  # type: ignore[attr-defined]
    assert compiled.__dict__["other"] == 4
    assert callable(compiled) and "user" in repr(compiled) and "0 entries" in repr(compiled)
    assert Compiled(print, missed).__name__ == "print"


def test_errors_pass_through() -> None:
    def fails(*args: Any) -> None:
        raise KeyError("inside")

    compiled = Compiled(missed, fails)
    with pytest.raises(KeyError):
        compiled(1)
    compiled.append(entry_for(1), fails)
    with pytest.raises(KeyError):
        compiled(1)
    with pytest.raises(TypeError):
        compiled.append(3, fails)  # type: ignore[arg-type]
    compiled.append(entry_for(2), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        compiled(2)


def test_entries_may_change_during_a_call() -> None:
    compiled = Compiled(missed, missed)

    def forget(x: Any) -> Any:
        compiled.clear()
        return x

    compiled.append(entry_for(1), forget)
    assert compiled(1) == 1
    assert compiled.entries() == []


def test_recursion() -> None:
    compiled = Compiled(missed, missed)
    guards = GuardSet()
    guards.add(arg(0), TYPE_IS, list)
    compiled.append(guards.compile([arg(0)]), lambda x: [*x, *compiled(x[1:])] if x else [])
    assert compiled([1, 2, 3]) == [1, 2, 3, 2, 3, 3]


def test_many_loads() -> None:
    values = list(range(1000))
    guards = GuardSet()
    program = guards.compile([arg(0).item(i) for i in range(1000)])
    compiled = Compiled(missed, missed)
    compiled.append(program, lambda *loads: list(loads))
    assert compiled(values) == values
    compiled.clear()
    compiled.append(program, max)
    assert compiled(values) == 999


def test_collected() -> None:
    class Thing:
        pass

    def build() -> tuple[Any, Any]:
        thing = Thing()
        compiled = Compiled(missed, lambda args, kwargs: compiled)
        guards = GuardSet()
        guards.add(arg(0), EQ, (1, 2))
        program = guards.compile([])
        program.twin = lambda *args: None
        compiled.append(program, lambda: (compiled, thing, program))
        return weakref.ref(thing), weakref.ref(compiled)

    seen = build()
    gc.collect()
    assert [reference() for reference in seen] == [None, None]


def test_weak_reference() -> None:
    compiled = Compiled(missed, missed)
    reference = weakref.ref(compiled)
    assert reference() is compiled
    del compiled
    assert reference() is None


def global_user(x: int) -> int:
    return x


global_user = Compiled(global_user, missed)  # type: ignore[assignment]


def test_copies_and_pickles_as_functions_do() -> None:
    assert copy.copy(global_user) is global_user
    assert copy.deepcopy([global_user])[0] is global_user
    assert pickle.loads(pickle.dumps(global_user)) is global_user
