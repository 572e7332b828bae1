"""Guards compare with objects that they do not keep alive; a program expires when one of them dies."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from stator._entry import Compiled, mortal
from stator.guards import GuardSet, arg, const
from stator.guards.check import CODE_IS, IS, TYPE_IS
from tests.guards.test_memory import growth


class Thing:
    pass


class Slotted:
    __slots__ = ()


def made_class() -> Any:
    return type("Made", (), {})


def made_function() -> Any:
    return eval("lambda: 1")


def made_module() -> Any:
    return types.ModuleType("made")


def compiled_with(guards: GuardSet, result: str = "hit") -> Any:
    compiled = Compiled(print, lambda args, kwargs: "miss")
    compiled.append(guards.compile([]), lambda: result)
    return compiled


def test_which_objects_can_die() -> None:
    for obj in (Thing(), Thing, made_class(), made_function(), made_module(), test_which_objects_can_die.__code__):
        assert mortal(obj), obj
    for obj in (1, "text", None, [], {}, (), object(), Slotted(), int, dict, len, [].append):
        assert not mortal(obj), obj


@pytest.mark.parametrize("make", [Thing, made_class, made_function, made_module])
def test_identity(make: Callable[[], Any]) -> None:
    obj = make()
    guards = GuardSet()
    guards.add(arg(0), IS, obj)
    compiled = compiled_with(guards)
    seen = weakref.ref(obj)
    assert compiled(obj) == "hit" and compiled(make()) == "miss" and compiled(None) == "miss"
    program = compiled.entries()[0][0]
    assert not program.expired
    del obj
    gc.collect()
    assert seen() is None
    assert program.expired and compiled(None) == "miss" and compiled.entries() == []
    assert guards.first_failure((None,)) is not None
    assert guards.compile([]).expired
    assert guards.describe() == ["IS arg0 something that is gone"]


def test_an_interruption_while_expired_entries_go_ends_the_call() -> None:
    raised: list[type[BaseException]] = [KeyboardInterrupt]

    def swept() -> None:
        if raised:
            raise raised.pop()

    obj = Thing()
    guards = GuardSet()
    guards.add(arg(0), IS, obj)
    compiled = Compiled(print, lambda args, kwargs: "miss", swept)
    compiled.append(guards.compile([]), lambda: "hit")
    del obj
    gc.collect()
    with pytest.raises(KeyboardInterrupt):
        compiled(None)
    assert compiled(None) == "miss" and compiled.entries() == []


def test_an_address_used_again_never_fits() -> None:
    reused = 0
    for _ in range(200):
        obj = Thing()
        guards = GuardSet()
        guards.add(arg(0), IS, obj)
        compiled = compiled_with(guards)
        assert compiled(obj) == "hit"
        address = id(obj)
        del obj
        other = Thing()
        reused += id(other) == address
        assert compiled(other) == "miss"
        assert guards.first_failure((other,)) is not None
    assert reused, "the test has seen nothing"


def test_classes_and_code() -> None:
    cls, function = made_class(), made_function()
    guards = GuardSet()
    guards.add(arg(0), TYPE_IS, cls)
    guards.add(arg(0).attr("x"), TYPE_IS, int)
    guards.add(arg(1), CODE_IS, function.__code__)
    compiled = compiled_with(guards)
    instance = cls()
    instance.x = 1
    assert compiled(instance, function) == "hit"
    seen = [weakref.ref(cls), weakref.ref(function.__code__)]
    del instance, cls
    gc.collect()
    assert seen[0]() is None and compiled.entries() == []
    del function
    gc.collect()
    assert seen[1]() is None


def test_constants() -> None:
    thing = Thing()
    thing.x = [7]  # type: ignore[attr-defined]
    guards = GuardSet()
    path = const(thing).attr("x").item(0)
    compiled = Compiled(print, lambda args, kwargs: "miss")
    compiled.append(guards.compile([const(thing), path]), lambda thing, x: x)
    seen = weakref.ref(thing)
    assert compiled() == 7
    thing.x = [8]  # type: ignore[attr-defined]
    assert compiled() == 8
    del thing
    assert seen() is None and compiled() == "miss" and compiled.entries() == []


def test_what_guards_are_told_to_keep() -> None:
    thing = Thing()
    guards = GuardSet()
    guards.add(arg(0), IS, thing)
    guards.keep(thing)
    seen = weakref.ref(thing)
    del thing
    gc.collect()
    assert seen() is not None and not guards.compile([]).expired
    del guards
    gc.collect()
    assert seen() is None


def test_death_in_a_cycle_with_the_program() -> None:
    """A finalizer brings back object and program together: nobody vouches for the address any longer."""
    kept: list[Any] = []

    class Risen:
        def __del__(self) -> None:
            kept.append(self)

    risen = Risen()
    guards = GuardSet()
    guards.add(arg(0), IS, risen)
    program = guards.compile([])
    assert program.run((risen,)) == []
    risen.program = program  # type: ignore[attr-defined]
    risen.itself = risen  # type: ignore[attr-defined]
    del risen, program
    gc.collect()
    assert kept[0].program.expired and kept[0].program.run((kept[0],)) != []


def test_death_by_assignment() -> None:
    """An attribute is replaced and its finalizer calls: the old object is still there, but no longer the attribute."""
    holder = Thing()
    seen: list[Any] = []

    class Last:
        def __del__(self) -> None:
            seen.append(compiled(holder))

    def assign(value: Any) -> None:
        holder.x = value  # type: ignore[attr-defined]

    for _ in range(100):
        assign(1)
    assign(Last())
    guards = GuardSet()
    guards.add(arg(0), TYPE_IS, Thing)
    guards.add(arg(0).attr("x"), IS, holder.x)  # type: ignore[attr-defined]
    compiled = compiled_with(guards)
    assert compiled(holder) == "hit"
    gc.collect()  # what was left of compiling
    assign(2)
    assert seen == ["miss"]


def test_programs_and_deaths_leak_nothing() -> None:
    lasting = Thing()

    def run() -> None:
        thing, guards = Thing(), GuardSet()
        guards.add(arg(0), IS, thing)
        guards.add(arg(1), IS, lasting)
        compiled = compiled_with(guards)
        assert compiled(thing, lasting) == "hit"
        del thing
        assert compiled(None, lasting) == "miss"

    run()
    assert growth(run, [lasting], calls=2000) < 20
    assert sys.getrefcount(lasting) < 10 and weakref.getweakrefcount(lasting) == 0
