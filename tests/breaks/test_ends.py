"""Code that runs when objects die behind a break runs when the program lets go of them, in the order of its output."""

from __future__ import annotations

import os
import types
import weakref
from typing import Any

import pytest
import torch

import stator
from stator.eval import forced
from tests.harness import check

X = torch.ones(3)


@pytest.fixture(autouse=True)
def unforced() -> Any:
    yield
    forced.force(None)


class Noisy:
    def __init__(self, name: Any) -> None:
        self.name = name

    def __del__(self) -> None:
        print("end", self.name)


class Holder:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


def inside_a_container(x: Any) -> Any:
    held, other = [(Noisy(1),)], Holder(noisy=Noisy(2))
    if x.sum() > 0:
        print("positive")
    del held
    print("list")
    other = None
    print("holder", other)
    return x + 1


def iterator_of_a_loop(x: Any) -> Any:
    def numbers() -> Any:
        try:
            yield from range(5)
        finally:
            print("closed")

    for number in numbers():
        if x.sum() > number:
            break
    print("left")
    return x + 1


def frame_that_returns(x: Any) -> Any:
    class Model:
        def __init__(self) -> None:
            self.noisy = Noisy("of a model")

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                print("positive")
            return x * 2

    y = Model().forward(x)
    print("returned")
    return y


def frame_that_returns_it(x: Any) -> Any:
    def made() -> Any:
        noisy = Noisy("made")
        if x.sum() > 0:
            print("positive")
        return [noisy]

    held = made()
    print("returned")
    return len(held), x + 1


def taken_out(x: Any) -> Any:
    held, named, holder = [Noisy(1), Noisy(2)], {"a": Noisy("a")}, Holder(noisy=Noisy("held"))
    if x.sum() > 0:
        print("positive")
    held.pop()
    print("popped")
    named["a"] = named
    print("overwritten")
    holder.noisy = held
    print("attribute")
    held.clear()
    print("cleared")
    named.clear()
    return x + 1


def moved(x: Any) -> Any:
    held, other = [Noisy(1)], []
    if x.sum() > 0:
        print("positive")
    other.append(held.pop())
    print("moved")
    return len(other), x + 1


def in_a_cell(x: Any) -> Any:
    noisy: Any = Noisy("cell")
    if x.sum() > 0:
        print("positive", (lambda: noisy.name)())
    noisy = None
    print("gone")
    return x + 1


def without_tensors(x: Any) -> Any:
    noisy = Noisy("plain")
    print(x.sum().item(), os.getpid() > 0)
    del noisy
    print("behind")


def asked_for(x: Any) -> Any:
    holder = Holder(held=Holder())
    reference = weakref.ref(holder.held)
    stator.graph_break()
    del holder
    return reference() is None, x + 1


def called_back(x: Any) -> Any:
    holder = Holder()
    held = [holder]
    reference = weakref.ref(holder, lambda _: print("called back"))
    if x.sum() > 0:
        print("positive")
    del holder
    print("held", reference() is held[0])
    held[0] = held
    print("gone", reference())
    held.clear()
    return x + 1


def moved_into_what_is_new(x: Any) -> Any:
    held = [Noisy(1), {"y": x + 1}]
    print("made")
    held.clear()
    print("cleared")
    held = {Noisy(2)}
    print("made")
    held.pop()
    print("popped")
    return x + 1


PROGRAMS = [
    moved_into_what_is_new,
    inside_a_container, iterator_of_a_loop, frame_that_returns, frame_that_returns_it, taken_out, moved, in_a_cell,
    without_tensors, asked_for, called_back,
]  # fmt: skip


@pytest.mark.parametrize("setting", [None, "8", "14", "17", "26"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_ends(program: Any, setting: str | None) -> None:
    forced.force(setting)
    check(program, vary=[(X,), (X + 1,)], fullgraph=False, expect_breaks=None, expect_recompiles=None)


POOL: list[Any] = []


def from_outside(x: Any) -> Any:
    print("before")
    POOL.pop()
    print("behind")
    return x + 1


def test_taken_out_of_a_global(capsys: Any) -> None:
    compiled = stator.compile(from_outside, backend="eager")
    for _ in range(2):
        POOL.append(Noisy("global"))
        compiled(X)
        assert capsys.readouterr().out.split() == ["before", "end", "global", "behind"]


class Slotted:
    __slots__ = ("held", "reference")


@pytest.mark.parametrize("kind", [Holder, Slotted, types.SimpleNamespace])
@pytest.mark.parametrize("deleted", [False, True])
def test_taken_out_of_an_attribute(kind: Any, deleted: bool, capsys: Any) -> None:
    def program(x: Any, owner: Any) -> Any:
        print("before")
        if deleted:
            del owner.held
        else:
            owner.held = x
        print("behind")
        return x + 1

    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        owner = kind()
        owner.held = Noisy("held")
        compiled(X, owner)
        assert capsys.readouterr().out.split() == ["before", "end", "held", "behind"]


@pytest.mark.parametrize("kind", [Holder, Slotted, types.SimpleNamespace])
def test_a_reference_to_what_was_in_an_attribute(kind: Any) -> None:
    def program(x: Any, owner: Any) -> Any:
        owner.held = Holder()
        return x, owner.reference() is None

    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        owner = kind()
        owner.held = Holder()
        owner.reference = weakref.ref(owner.held)
        assert compiled(X, owner)[1]


LOG: list[int] = []


def finalized() -> Any:
    holder = Holder()
    finalizer = weakref.finalize(holder, LOG.append, 1)
    before = finalizer.alive
    del holder
    return before, finalizer.alive, list(LOG)


def test_finalizers_of_calls_that_cpython_runs() -> None:
    compiled = stator.compile(finalized, backend="eager")
    assert [compiled() for _ in range(5)] == [(True, False, [1] * n) for n in range(1, 6)]


def closing(seen: list[str]) -> Any:
    try:
        yield 1
        yield 2
    finally:
        seen.append("closed")


def test_next_to_a_text_that_varies() -> None:
    """What stands for a text knows the whole capture, which holds nothing for the program."""

    def program(x: Any, text: str, seen: list[str]) -> Any:
        generator = closing(seen)
        next(generator)
        try:
            stator.graph_break()
            raise ValueError(text)
        except ValueError as error:
            seen.append("handler")
            del generator
            seen.append(str(error))
        return x + 1

    compiled = stator.compile(program, backend="eager")
    for text in ("one", "two", "three", "one", "four"):
        seen: list[str] = []
        compiled(X, text, seen)
        assert seen == ["handler", "closed", text]
