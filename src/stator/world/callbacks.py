"""Callbacks of weak references made during capture."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from stator import _frames

# Code that CPython runs unobserved when some object of another program dies, and the same code to be observed.
TWINS: dict[CodeType, CodeType] = {}


class Observed:
    """The callback as the reference keeps it: fires inside a span, and never after the capture it belongs to."""

    __slots__ = ("callback",)

    def __init__(self, callback: Any) -> None:
        self.callback = callback

    def __call__(self, reference: Any) -> None:
        if _frames.capturing() and _frames.top_frame() is not None:
            _frames.native(watched(self.callback), reference)


def watched(callback: Any) -> Any:
    """The callback in a form that the interpreter takes."""
    twin = TWINS.get(callback.__code__) if type(callback) is FunctionType else None
    if twin is None:
        return callback
    return FunctionType(twin, callback.__globals__, None, callback.__defaults__, callback.__closure__)
