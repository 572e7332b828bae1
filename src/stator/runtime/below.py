"""Frames below a break: Python functions that CPython calls while it executes a breaking instruction."""

from __future__ import annotations

from types import CodeType
from typing import Any


class Below(dict[int, Any]):
    """What takes the place of frames, by the address of their code object; None: CPython runs them."""

    __slots__ = ("session",)

    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session = session

    def decide(self, code: CodeType) -> Any:
        return None
