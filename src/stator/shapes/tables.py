"""Numbers that an int chooses: what a list, tuple or dict has at a key that changes; and places of sorted ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 48  # rows of a table that C looks into


class Table:
    """A function of an int: the number of that row."""

    __name__ = "table"

    def __init__(self, rows: Mapping[int, Any]) -> None:
        self.rows = rows

    def __call__(self, key: int) -> Any:
        return self.rows[key]

    def is_short(self) -> bool:
        """Whether C can look it up: as a sum of which all parts but one are zero, which loses no sign."""
        return len(self.rows) <= LONGEST and all(map(_is_part, self.rows.values()))

    def steps(self) -> Iterator[tuple[str, Any]]:
        """The number as a calculation: what to load, constants, and operations."""
        for place, (key, value) in enumerate(self.rows.items()):
            yield from (("KEY", 0), ("NUMBER", key), ("EQ", 0), ("NUMBER", value), ("MUL", 0))
            if place:
                yield "ADD", 0

    def has(self) -> Iterator[tuple[str, int]]:
        """Whether there is such a row, as a calculation."""
        for place, key in enumerate(self.rows):
            yield from (("KEY", 0), ("NUMBER", key), ("EQ", 0))
            if place:
                yield "OR", 0


def _is_part(value: Any) -> bool:
    return math.isfinite(value) and (value != 0 or math.copysign(1.0, value) > 0)


class Rank:
    """A function of floats: the one at this place once they are sorted."""

    __name__ = "rank"

    def __init__(self, place: int) -> None:
        self.place = place

    def __call__(self, *numbers: float) -> float:
        return sorted(numbers)[self.place]


def picked(place: int, *numbers: float) -> float:
    """The one of some floats that an int chooses."""
    return numbers[place]
