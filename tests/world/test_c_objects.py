"""Objects of classes made in C: what they hold may be another thing at the next call."""

from __future__ import annotations

import copy
import ctypes
import io
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import stator
from tests.harness import check

Namespace = types.SimpleNamespace


class Pair(ctypes.Structure):
    _fields_ = [("left", ctypes.c_int), ("right", ctypes.c_int)]  # noqa: RUF012 - as ctypes wants it


def with_attribute(made: Any) -> Any:
    made.n, made.operation = 1, max
    return made


def change(obj: Any) -> None:
    obj.n, obj.operation = 9, min


def documented() -> Any:
    return property(lambda self: 0, doc="a")


def set_left(obj: Any) -> None:
    obj.left = 7


READS: dict[str, tuple[Callable[[], Any], Callable[[Any], None], Callable[[Any], Any]]] = {
    "namespace": (lambda: with_attribute(Namespace()), change, lambda o: o.n + o.operation(3, 4)),
    "hasattr": (Namespace, change, lambda o: int(hasattr(o, "n"))),
    "repr": (Namespace, change, lambda o: len(repr(o))),
    "equal": (lambda: Namespace(n=1), change, lambda o: int(o == Namespace(n=1))),
    "staticmethod": (
        lambda: with_attribute(staticmethod(change)),
        change,
        lambda o: o.n + o.operation(3, 4),
    ),
    "property": (documented, lambda o: o.__init__(doc="abc"), lambda o: len(o.__doc__)),
    "file": (lambda: io.StringIO("a"), lambda o: o.close(), lambda o: int(o.closed)),
    "structure": (lambda: Pair(1, 2), set_left, lambda o: o.left),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_guarded(name: str) -> None:
    make, changes, read = READS[name]
    obj = make()

    def program(x: Any) -> Any:
        return x + read(obj)

    compiled, x = stator.compile(program, backend="eager"), torch.zeros(2)
    assert torch.equal(compiled(x), program(x))
    before = program(x)
    changes(obj)
    assert not torch.equal(program(x), before)
    assert torch.equal(compiled(x), program(x))


def counted(x: Any, state: Any) -> Any:
    state.n += 1
    state.last = x * state.n
    return state.last + 1


def looked_at(x: Any, state: Any) -> Any:
    state.n += 1
    own = vars(state)
    return x + 1, repr(state), state == Namespace(n=2), Namespace(n=2) == state, own, copy.copy(state), sorted(own)


def deleted(x: Any, state: Any) -> Any:
    del state.n
    state.me = state
    return x + 1, hasattr(state, "n"), state.me


def started_again(x: Any, state: Any) -> Any:
    state.__init__(n=5, z=x + 1)
    return state.n, state


@pytest.mark.parametrize("program", [counted, looked_at, deleted, started_again])
def test_namespaces_are_written_to(program: Any) -> None:
    check(program, vary=[(torch.ones(2), Namespace(n=n)) for n in (1, 1, 3)], expect_recompiles=None)


def test_entries_fit_the_call_they_were_made_from() -> None:
    class Point(NamedTuple):
        left: int
        right: int

    point, pair = Point(1, 2), Pair(3, 4)

    def program(x: Any) -> Any:
        return x + point.left * pair.left

    compiled, x = stator.compile(program, backend="eager"), torch.zeros(2)
    before = stator.stats()["graphs"]
    assert torch.equal(compiled(x), program(x)) and torch.equal(compiled(x), program(x))
    assert stator.stats()["graphs"] == before + 1 and stator.stats()["recompiles"] == 0


def test_slots_of_one_object_that_different_classes_define() -> None:
    def program(equals: Any, x: Any) -> Any:
        return equals([1]) is True, x + 1

    receiver = [1]
    compiled = stator.compile(program, backend="eager")
    for cls in (list, object, list):
        equals = cls.__eq__.__get__(receiver)
        assert compiled(equals, torch.ones(2))[0] is program(equals, torch.ones(2))[0]


def test_slots_of_a_class_are_known_by_what_they_are() -> None:
    class Meta(type):
        def slot(cls) -> Any:
            return super().__call__

    class Made(metaclass=Meta):
        def __init__(self, x: Any) -> None:
            self.x = x * 2

    def program(make: Any, x: Any) -> Any:
        return make(x + 1).x

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        assert compiled(Made.slot(), torch.ones(2)).tolist() == [4, 4]
    assert stator.stats()["recompiles"] == 0 and stator.stats()["frames_captured"] == 1


class Filtered(dict[str, Any]):
    """Its own `update` is not the one that goes on behind the break."""

    def update(self, other: Any) -> None:  # type: ignore[override]
        super().update(self.kept(other))

    def kept(self, other: Any) -> Any:
        stator.graph_break()
        return {name: value * 2 for name, value in other.items() if name != "x"}

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, self.kept({"y": value})["y"])


def test_methods_of_c_below_those_of_the_program() -> None:
    def program(found: Any, x: Any) -> Any:
        found.update({"x": x, "z": x + 1})
        found["w"] = x + 2
        return found

    check(program, Filtered(a=1), torch.ones(2), fullgraph=False, expect_breaks=2)
