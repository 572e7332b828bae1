"""Objects with a hash of their own are up to date before containers get them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import pytest
import torch

import stator
from stator import _entry


class Key:
    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.value == other.value


class Sequence(list):  # type: ignore[type-arg]
    __slots__ = ("hashed",)
    hashed: int

    def __hash__(self) -> int:  # type: ignore[override]
        return self.hashed


def files(x: torch.Tensor, key: Key, sequence: Sequence, table: dict[Any, int], known: set[Any]) -> torch.Tensor:
    key.value = 5
    sequence.hashed = 7
    table[key] = 1
    table[sequence] = 2
    known.add(key)
    return x + 1


def test_hashed_by_what_was_written() -> None:
    key, sequence = Key(3), Sequence()
    table: dict[Any, int] = {}
    known: set[Any] = set()
    stator.compile(files, backend="eager", fullgraph=True)(torch.zeros(1), key, sequence, table, known)
    assert (table[Key(5)], table[sequence]) == (1, 2)
    assert key in known and Key(5) in known


def test_key_that_is_being_made_at_a_break() -> None:
    class Made(list):  # type: ignore[type-arg]
        __slots__ = ("hashed",)

        def __init__(self, value: tuple[int, ...]) -> None:
            self[:] = value
            stator.graph_break()
            self.hashed = hash(value)

        def __hash__(self) -> int:  # type: ignore[override]
            return self.hashed

    def looks_up(x: torch.Tensor) -> Any:
        table = {}
        for i in range(3):
            table[Made((i % 2, 1))] = i
        return x + len(table), list(table.values())

    y, values = stator.compile(looks_up, backend="eager", fullgraph=False)(torch.zeros(1))
    assert (y.item(), values) == (2.0, [2, 1])


asked: list[Any] = []


class Counted:
    """Says how often it was asked, and may change its mind."""

    def __init__(self, number: int, hashed: int | None = None) -> None:
        self.number = number
        self.hashed: int | None = number if hashed is None else hashed

    def __hash__(self) -> int:
        asked.append(self.number)
        if self.hashed is None:
            raise ValueError("no hash")
        return self.hashed

    def __eq__(self, other: object) -> bool:
        asked.append((self.number, getattr(other, "number", None)))
        return isinstance(other, Counted) and self.number == other.number

    def __repr__(self) -> str:
        return f"Counted({self.number})"


class Placed:
    """Hashed by where its mark lies."""

    def __init__(self) -> None:
        self.mark = object()

    def __hash__(self) -> int:
        return hash((self.mark, 1))


def raises_later(x: torch.Tensor) -> Any:
    key = Counted(1)
    table = {key: x + 1}
    key.hashed = None
    return table


def changes_over_a_break(x: torch.Tensor) -> Any:
    key = Counted(1)
    table, group, frozen = {key: x + 1}, {key, 4}, frozenset([key])
    key.hashed = 8 * 1024 + 5
    stator.graph_break()
    return table, group, frozen, key in table, key in group, key in frozen, Counted(1) in table


def collide(x: torch.Tensor) -> Any:
    table = {Counted(1, 5): x, Counted(2, 5): 2, (Counted(3, 5), "a"): 3}
    stator.graph_break()
    return table, {Counted(4, 5), Counted(5, 5)}


def in_order(x: torch.Tensor) -> Any:
    table: OrderedDict[Any, Any] = OrderedDict()
    table[Counted(1)], table[Counted(2)] = x + 1, 2
    table.move_to_end(Counted(1))
    stator.graph_break()
    del table[Counted(2)]
    table[Counted(3)] = 3
    return table


def defaults(x: torch.Tensor) -> Any:
    table: defaultdict[Any, list[Any]] = defaultdict(list)
    table[Counted(1)].append(x + 1)
    stator.graph_break()
    table[Counted(1)].append(2)
    return table


def by_address(x: torch.Tensor) -> Any:
    key = Placed()
    table, group = {key: x}, {key}
    stator.graph_break()
    return key in {*table}, key in group, len(table)


@pytest.mark.parametrize("program", [raises_later, changes_over_a_break, collide, in_order, defaults, by_address])
def test_keys_are_asked_as_often_as_in_eager(program: Any) -> None:
    def observed(run: Any) -> tuple[str, list[Any]]:
        asked.clear()
        result = run(torch.zeros(2))
        before = [*asked]
        return repr(result), before

    expected = observed(program)
    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        assert observed(compiled) == expected


def put(x: torch.Tensor, table: dict[Any, Any], group: set[Any]) -> torch.Tensor:
    key = Counted(1)
    table[key] = x + 1
    group.add(key)
    key.hashed = None
    return x * 2


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda: defaultdict(int), lambda: {"a": 1, 3: 2}])
def test_outside_containers_get_keys_under_the_hash_they_had(kind: Any) -> None:
    compiled = stator.compile(put, backend="eager", fullgraph=True)
    for group in (set(), {7, "b"}):
        table = kind()
        asked.clear()
        compiled(torch.zeros(2), table, group)
        assert asked == [1, 1]
        numbers = [hashed for key, hashed in _entry.stored_hashes(table) if isinstance(key, Counted)]
        assert numbers == [1] == [hashed for key, hashed in _entry.stored_hashes(group) if isinstance(key, Counted)]


def has(x: torch.Tensor, group: set[Any]) -> Any:
    group.discard(Counted(3))
    return x + 1, Counted(1) in group, sorted(one.number for one in group)


def test_sets_of_such_keys_are_told_apart() -> None:
    compiled = stator.compile(has, backend="eager")
    for numbers in ([2], [1], [5], [1, 3], [2, 3], [1], [2]):
        mine, theirs = {*map(Counted, numbers)}, {*map(Counted, numbers)}
        asked.clear()
        expected, before = has(torch.zeros(1), theirs), [*asked]
        asked.clear()
        result = compiled(torch.zeros(1), mine)
        assert asked == before
        assert result[1:] == expected[1:]
        assert repr(mine) == repr(theirs)


def test_looking_for_the_reason_of_a_miss_asks_no_default() -> None:
    def adds(x: torch.Tensor, table: dict[Any, int]) -> torch.Tensor:
        return x + sum(table.values())

    compiled = stator.compile(adds, backend="eager")
    compiled(torch.zeros(1), {"a": 1, "b": 2})
    table = defaultdict(lambda: 5, {"c": 3})
    compiled(torch.zeros(1), table)
    assert dict(table) == {"c": 3}
