"""stator asks an object of the program nothing that the program itself does not ask."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.report.events import recording

LOG: list[str] = []
CLAIMED: list[type] = [object]  # what objects say their class is
ANSWERS = {"hash": 5, "bool": True, "len": 2, "call": 7, "repr": "nosy", "index": 1, "eq": False, "format": "nosy"}


def telling(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        LOG.append(name)
        return ANSWERS[name]

    return method


def read(self: Any, name: str) -> Any:
    LOG.append(f"get {name}")
    return super(type(self), self).__getattribute__(name)


METHODS = {"__getattribute__": read, "__class__": property(lambda self: CLAIMED[0])}


def nosy(base: type, *names: str) -> Any:
    """A class whose objects tell what they are asked."""
    return type("Nosy", (base,), METHODS | {f"__{name}__": telling(name) for name in names})


Nosy, NosyList, NosyDict, NosyError = nosy(object, *ANSWERS), nosy(list, "repr"), nosy(dict, "repr"), nosy(Exception)


def called(x: Any, o: Any) -> Any:
    return x + o(1) + o(*[1], **{})


def handed_to_c(x: Any, o: Any) -> Any:
    return x + functools.partial(o, 1)() + sum(map(o, [1, 2])), sorted([2, 1], key=o)


def wrapped(x: Any, o: Any) -> Any:
    @functools.wraps(o, assigned=())
    def inner() -> Any:
        return o()

    return x + inner()


def carried(x: Any, o: Any) -> Any:
    held = {"k": [o]}
    stator.graph_break()
    held["k"].append(o)
    return x + 1, held["k"][0] is held["k"][1]


def made(x: Any, o: Any) -> Any:
    own = Nosy()
    stator.graph_break()
    return x + own(2), own


def list_of_its_own(x: Any, o: Any) -> Any:
    own = NosyList([1])
    own.append(2)
    stator.graph_break()
    own.append(3)
    return x + len(own)


def dict_of_its_own(x: Any, o: Any) -> Any:
    own = NosyDict(a=1)
    own["b"] = 2
    own.update(c=3)
    stator.graph_break()
    return x + own["c"]


def raised(x: Any, o: Any) -> Any:
    try:
        raise NosyError(1)
    except ValueError:
        return x
    except Exception:
        stator.graph_break()
        return x + 1


PROGRAMS = [called, handed_to_c, wrapped, carried, made, list_of_its_own, dict_of_its_own, raised]


@pytest.mark.parametrize("claimed", [object, types.FunctionType, list])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_more(program: Any, claimed: type) -> None:
    CLAIMED[:] = [claimed]
    told = []
    for run in (program, stator.compile(program, backend="eager")):
        LOG.clear()
        for _ in range(3):
            run(torch.ones(2), Nosy())
        told.append(LOG[:])
    assert told[0] == told[1]


def lying(base: type) -> Any:
    """A container that says nothing true about itself."""
    methods = {"__len__": lambda self: 7, "__iter__": lambda self: iter([9]), "__getitem__": lambda self, key: 8}
    return type("Lying", (base,), methods)([1, 2] if base is not dict else {1: 2})


@pytest.mark.parametrize("base", [tuple, list, dict, set, frozenset, deque])
def test_containers_are_guarded_by_what_they_hold(base: type) -> None:
    def program(x: Any, o: Any) -> Any:
        return x + len(o), list(o), list(base.__iter__(o))  # type: ignore[attr-defined]

    compiled, thing = stator.compile(program, backend="eager"), lying(base)
    with recording("error") as mistakes:
        for _ in range(2):
            assert str(compiled(torch.ones(1), thing)) == str(program(torch.ones(1), thing))
    assert mistakes == []


class Told:
    """Attributes have slots, and whoever writes another one is told of it once."""

    __slots__ = ("kept",)

    def __setattr__(self, name: str, value: Any) -> None:
        LOG.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        LOG.append(name)
        object.__delattr__(self, name)


@pytest.mark.parametrize("broken", [False, True])
def test_objects_without_room(broken: bool) -> None:
    def program(x: Any, o: Any) -> Any:
        said = []
        if broken:
            stator.graph_break()
        o.kept = x
        for attempt in (lambda: setattr(o, "other", 1), lambda: delattr(o, "other"), lambda: setattr(o, "__init__", 1)):
            try:
                attempt()
            except AttributeError as error:
                said.append(str(error))
        try:
            object.__setattr__(o, "third", x)
        except AttributeError as error:
            said.append(str(error))
        return said

    told = []
    with recording("error", "skip") as mistakes:
        for run in (program, stator.compile(program, backend="eager")):
            LOG.clear()
            told.append(([run(torch.ones(2), Told()) for _ in range(2)], LOG[:]))
    assert told[0] == told[1]
    assert not mistakes


def test_lists_of_their_own_that_grow_with_a_number() -> None:
    """What C makes of a number that varies is looked at, but not by its own methods."""

    class Growing(list[Any]):
        def __iter__(self) -> Any:
            LOG.append("iter")
            return super().__iter__()

        def __len__(self) -> int:
            LOG.append("len")
            return super().__len__()

        def __iadd__(self, other: Any) -> Any:
            return super().__iadd__(other)

    def program(x: Any, own: Any, n: int) -> Any:
        own += [n * 2]
        return x + list.__len__(own)

    told = []
    for run in (program, stator.compile(program, backend="eager")):
        LOG.clear()
        own = Growing([1, 2, 3])
        told.append(([run(torch.ones(3 + n), own, n).tolist() for n in range(5)], LOG[:], list.__len__(own)))
    assert told[0] == told[1]
