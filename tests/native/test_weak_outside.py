"""Weak references from outside lead to what the program sees of an object, never to the object itself."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
import torch

import stator


class Listing(list):  # type: ignore[type-arg]
    pass


class Mapping(dict):  # type: ignore[type-arg]
    pass


class Subclass(weakref.ref):  # type: ignore[type-arg]
    pass


class Owner:
    def __init__(self) -> None:
        self.seen = Listing()

    def notes(self) -> int:
        self.seen.append(len(self.seen))
        return len(self.seen)


KINDS = {
    "plain": weakref.ref,
    "with a callback": lambda obj: weakref.ref(obj, lambda reference: None),
    "subclass": Subclass,
    "keyed": lambda obj: weakref.KeyedRef(obj, None, 5),  # type: ignore[call-arg]
}


def changes(x: torch.Tensor, reference: Any, kept: Any) -> Any:
    found = reference()
    found.append(len(found))
    del reference()[0]
    return found is kept, reference() is found, len(reference()), x + found[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_container_changes_once(kind: str) -> None:
    kept = Listing([5, 6])
    reference = KINDS[kind](kept)
    compiled = stator.compile(changes, backend="eager", fullgraph=True)
    for size in (3, 3):
        same, again, count, y = compiled(torch.zeros(1), reference, kept)
        assert (same, again, count, y.item()) == (True, True, 2, 2.0)
        assert len(kept) + 1 == size
    assert kept == [2, 2]


def test_key_is_deleted_once() -> None:
    kept = Mapping(a=1, b=2)
    reference = weakref.ref(kept)

    def deletes(x: torch.Tensor) -> Any:
        del reference()["a"]  # type: ignore[index]
        return x + 1, list(map(weakref.ref.__call__, [reference]))[0] is kept, weakref.ref(kept) is reference

    assert stator.compile(deletes, backend="eager", fullgraph=True)(torch.zeros(1))[1:] == (True, True)
    assert kept == {"b": 2}


def test_values_of_a_weak_dict() -> None:
    kept = Listing([1])
    table = weakref.WeakValueDictionary({"kept": kept})

    def changed(x: torch.Tensor) -> Any:
        table["kept"].append(2)
        return x + len(table["kept"]), table["kept"] is kept

    y, same = stator.compile(changed, backend="eager", fullgraph=True)(torch.zeros(1))
    assert (y.item(), same, kept) == (2.0, True, [1, 2])


def test_weak_method() -> None:
    owner = Owner()
    method = weakref.WeakMethod(owner.notes)
    compiled = stator.compile(lambda x: x + method()(), backend="eager", fullgraph=True)  # type: ignore[misc]
    assert [compiled(torch.zeros(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert owner.seen == [0, 1, 2]


def test_reference_dies() -> None:
    """An entry is made for a live referent; once that is gone, so is the entry."""
    kept = Listing([1])
    reference = Subclass(kept)
    compiled = stator.compile(lambda x: x + (reference() is None), backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1)).item() == 0.0
    del kept
    assert compiled(torch.zeros(1)).item() == 1.0


def test_removed_hook() -> None:
    w = torch.ones(2, requires_grad=True)
    handle = w.register_hook(lambda grad: grad * 2)

    def removes(x: torch.Tensor) -> torch.Tensor:
        handle.remove()
        return x + 1

    compiled = stator.compile(removes, backend="eager")
    compiled(torch.zeros(1))
    assert not w._backward_hooks
    assert not stator.report.events.events("error")


def test_reference_and_referent_leave() -> None:
    kept = Listing([1])
    reference = weakref.ref(kept)

    def gives(x: torch.Tensor) -> Any:
        return reference, reference(), x + 1

    given, found, _ = stator.compile(gives, backend="eager", fullgraph=True)(torch.zeros(1))
    assert given is reference and found is kept


def test_dead_reference() -> None:
    """One that is dead stays so: there is nothing to guard."""
    reference = weakref.ref(Listing())
    compiled = stator.compile(lambda x: x + (reference() is None), backend="eager", fullgraph=True)
    assert [compiled(torch.zeros(1)).item() for _ in range(2)] == [1.0, 1.0]
    assert stator.stats()["frames_captured"] == 1 and not stator.report.events.events("error")


def test_weak_collections_forget_what_dies() -> None:
    """Also what the program made and let go of at once."""
    known: weakref.WeakSet[Any] = weakref.WeakSet()
    table: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def forgets(x: torch.Tensor) -> Any:
        known.add(Owner())
        table["owner"] = Owner()
        return x + len(known), "owner" in table

    for fullgraph in (True, False):
        y, there = stator.compile(forgets, backend="eager", fullgraph=fullgraph)(torch.zeros(1))
        assert (y.item(), there, len(known), len(table)) == (0.0, False, 0, 0)


def test_weak_collections_of_the_program() -> None:
    """What forgets the dead is a function of the program as well: no guard asks for it."""

    def forgets(x: torch.Tensor) -> Any:
        key, owner = Owner(), Owner()
        by_key: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary({key: 1, owner: 2})
        by_name: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary({"key": key})
        both = weakref.WeakSet([key, owner])
        before = len(by_key), len(by_name), len(both)
        del key
        return x + len(by_key), before, list(by_key.values()), list(by_name), len(both)

    compiled = stator.compile(forgets, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(torch.zeros(1)) == (torch.ones(1), (2, 1, 2), [2], [], 1)
    assert stator.stats()["frames_captured"] == 1 and not stator.report.events.events("error")


@pytest.mark.parametrize("kind", [weakref.WeakKeyDictionary, weakref.WeakSet])
def test_weak_collection_behind_a_break(kind: Any) -> None:
    """What it holds dies with the variables of the function: nobody can tell whether it is there itself by then."""

    def forgets(x: torch.Tensor) -> Any:
        known = kind()
        stator.graph_break()
        key = Owner()
        known.update({key: 1})
        return x + len(known)

    compiled = stator.compile(forgets, backend="eager")
    assert [compiled(torch.zeros(1)).item() for _ in range(2)] == [1.0, 1.0]


def test_callback_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython says so, once per call."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: told.append(event.exc_type))

    def program(x: torch.Tensor) -> Any:
        owner = Owner()
        reference = weakref.ref(owner, lambda _: 1 // 0)
        del owner
        return x + (reference() is None)

    for run in (program, stator.compile(program, backend="eager")):
        assert run(torch.zeros(1)).item() == 1.0
        assert told == [ZeroDivisionError]
        told.clear()


def collects_a_cycle(x: torch.Tensor) -> Any:
    owner: Any = Owner()
    owner.itself = owner
    told: list[str] = []
    reference = weakref.ref(owner, lambda _: told.append("gone"))
    del owner
    gc.collect()
    return x + (reference() is None), told


def forgets_references(x: torch.Tensor) -> Any:
    owner = Owner()
    first, second = weakref.ref(owner), weakref.ref(owner, print)
    del first
    gc.collect()
    found = weakref.getweakrefs(owner) == [second]
    del second
    gc.collect()
    return x + found, weakref.getweakrefs(owner)


@pytest.mark.parametrize("program", [collects_a_cycle, forgets_references])
def test_collected(program: Any) -> None:
    """What only weak references lead to must not be held by what goes on behind the break."""
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.zeros(1)) == program(torch.zeros(1))


class Counted:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


def test_dead_reference_behind_a_break() -> None:
    """It remembers its hash, if it was asked in time."""

    def program(x: torch.Tensor) -> Any:
        owner = Counted(42)
        one = weakref.ref(owner)
        other = weakref.ref(owner, lambda _: None)
        number = hash(one)
        del owner
        stator.graph_break()
        try:
            return x + number, hash(one), hash(other)
        except TypeError as error:
            return x + number, hash(one), str(error)

    for run in (program, stator.compile(program, backend="eager")):
        assert run(torch.zeros(1)) == (torch.tensor([42.0]), 42, "weak object has gone away")
