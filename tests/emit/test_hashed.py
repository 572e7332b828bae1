"""Objects with a hash of their own are up to date before containers get them."""

from __future__ import annotations

from typing import Any

import torch

import stator


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
