"""Places in the user's program, for people and for torch."""

from __future__ import annotations

import os
from typing import Any

import torch

from stator.code.hidden import is_hidden
from stator.errors import Location
from stator.runtime.stack import Stack

TORCH = os.path.dirname(torch.__file__) + os.sep


class Origin(tuple[Any, int]):
    """The innermost instruction, as everywhere; and those that lead there, innermost first."""

    stack: list[tuple[Any, int]]

    def __new__(cls, frame: Any) -> Origin:
        self = super().__new__(cls, (frame.code, frame.lasti))
        self.stack = []
        while frame is not None:
            self.stack.append((frame.code, frame.lasti))
            frame = frame.outer
        return self


class Where(Stack):
    """The user's frames at one moment, and the modules that are being called."""

    __slots__ = ("modules",)

    def __init__(self, frame: Any, modules: dict[str, tuple[str, str]]) -> None:
        super().__init__(frame)
        self.modules = modules

    def format(self) -> str:
        """As torch writes it for exported programs: the user's frames, without carets."""
        places = [Location(code, 2 * unit) for code, unit in reversed(self.places) if not is_hidden(code)]
        return "\n".join(f'  File "{p.file}", line {p.lineno}, in {p.function}\n    {p.text.strip()}' for p in places)


def user_place(origin: Any) -> Location | None:
    """The innermost line of the user's program: not one of torch, unless there is no other."""
    if origin is None:
        return None
    stack = origin.places if isinstance(origin, Stack) else getattr(origin, "stack", (origin,))
    code, unit = next((row for row in stack if not row[0].co_filename.startswith(TORCH)), stack[0])
    return Location(code, 2 * unit)
