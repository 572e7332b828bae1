"""Callbacks of weak references made during capture."""

from __future__ import annotations

from typing import Any

from stator import _frames


class Observed:
    """The callback as the reference keeps it: fires inside a span, and never after the capture it belongs to."""

    __slots__ = ("callback",)

    def __init__(self, callback: Any) -> None:
        self.callback = callback

    def __call__(self, reference: Any) -> None:
        if _frames.capturing() and _frames.top_frame() is not None:
            _frames.native(self.callback, reference)
