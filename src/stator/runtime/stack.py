"""Where the captured program is, kept without texts until somebody reads it."""

from __future__ import annotations

from typing import Any

from stator.errors import Location


class Stack:
    """The user's frames at one moment."""

    __slots__ = ("places",)

    def __init__(self, frame: Any) -> None:
        self.places = []
        while frame is not None:
            self.places.append((frame.code, frame.lasti))
            frame = frame.outer

    @property
    def innermost(self) -> Location | None:
        """The instruction that did it."""
        return Location(self.places[0][0], 2 * self.places[0][1]) if self.places else None

    def format(self) -> str:
        return "\n".join(Location(code, 2 * unit).format() for code, unit in reversed(self.places))
