"""Outside dicts whose keys are hashed and compared by code of the program."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator

ASKED: list[str] = []


class Key:
    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        ASKED.append(f"hash {self.name}")
        return len(self.name)

    def __eq__(self, other: object) -> bool:
        ASKED.append(f"eq {self.name}")
        return isinstance(other, Key) and self.name == other.name

    def __repr__(self) -> str:
        return self.name


def reads(d: Any, x: Any) -> Any:
    return d[Key("b")] * x, d.get(Key("none")), Key("a") in d, len(d), [key.name for key in d]


def replaces(d: Any, x: Any) -> Any:
    d[Key("a")] = x + 1
    d[Key("new")] = x + 2
    return x * 2


def deletes(d: Any, x: Any) -> Any:
    del d[Key("a")]
    d.pop(Key("ccc"))
    return x * 2


def adds(d: Any, x: Any) -> Any:
    d.setdefault(Key("d"), x + 1)
    d.update({Key("e"): 1, "text": 2})
    return x * 2


def moves(d: Any, x: Any) -> Any:
    key = next(iter(d))
    value = d.pop(key)
    d[key] = value
    return x * 2


def empties(d: Any, x: Any) -> Any:
    while d:
        x = x + d.popitem()[1]
    return x


def seen(run: Callable[..., Any], d: Any) -> Any:
    ASKED.clear()
    result = run(d, torch.ones(1))
    asked = list(ASKED)
    return repr(result), repr(d), asked


@pytest.mark.parametrize("kind", [dict, lambda pairs: defaultdict(int, pairs)])
@pytest.mark.parametrize("program", [reads, replaces, deletes, adds, moves, empties])
def test_same_as_eager(program: Callable[..., Any], kind: Any) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for names in ("a b ccc".split(), "a b ccc".split(), "ccc b a zzzz".split()):
        mine, other = (kind([(Key(name), float(i)) for i, name in enumerate(names)]) for _ in range(2))
        assert seen(compiled, mine) == seen(program, other)
        for name in (*names, "new", "d", "e"):
            assert (Key(name) in mine) == (Key(name) in other)
    assert stator.stats()["frames_captured"] > 0


@pytest.mark.parametrize("program", [reads, replaces, deletes, adds, moves, empties])
def test_ordered_dict(program: Callable[..., Any]) -> None:
    """It asks its keys whenever somebody goes through them: CPython does that."""
    compiled = stator.compile(program, backend="eager")
    for names in ("a b ccc".split(), "a b ccc".split(), "ccc b a zzzz".split()):
        mine, other = (OrderedDict([(Key(name), float(i)) for i, name in enumerate(names)]) for _ in range(2))
        assert seen(compiled, mine) == seen(program, other)


def test_other_hashes_are_another_entry() -> None:
    """Where a key lies is guarded, though all else of it is the same."""

    class Moody:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return self.number

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Moody)

    def program(d: Any, key: Any, x: Any) -> Any:
        return x + d.get(key, 10)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for stored, asked in ((1, 1), (1, 1), (2, 1), (1, 2), (2, 2)):
        d, key = {Moody(stored): 1}, Moody(asked)
        assert torch.equal(compiled(d, key, torch.ones(1)), program(d, key, torch.ones(1)))
