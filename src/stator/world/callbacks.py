"""Callbacks of weak references made during capture."""

from __future__ import annotations

import contextlib
from types import CodeType, FunctionType
from typing import Any

from stator import _frames
from stator.world.world import World

# Code that CPython runs unobserved when some object of another program dies, and the same code to be observed.
TWINS: dict[CodeType, CodeType] = {}


class Observed:
    """The callback as the reference keeps it: fires inside a span, and never after the capture it belongs to."""

    __slots__ = ("callback", "watched")

    def __init__(self, world: World, callback: Any) -> None:
        self.callback = callback
        self.watched = watched(world, callback)

    def __call__(self, reference: Any) -> None:
        frame = _frames.top_frame() if _frames.capturing() else None
        if frame is None:
            return
        try:
            if _frames.native(self.watched, reference) is _frames.FAILED:
                what = "a callback of a weak reference that raises"
                raise frame.world.refuse("native-effect", what, function="the interpreter")
        except Exception as error:  # stator's own
            give_up(error)


def give_up(error: Exception) -> None:
    """The capture ends with this error when native code returns, which drops what is raised where objects die."""
    with contextlib.suppress(SystemExit):
        _frames.abandon(error)


def watched(world: World, callback: Any) -> Any:
    """The callback in a form that the interpreter takes."""
    code = TWINS.get(callback.__code__) if type(callback) is FunctionType else None
    if code is None:
        return callback
    known = world.twins.get(id(callback))
    if known is None:
        twin = FunctionType(code, callback.__globals__, None, callback.__defaults__, callback.__closure__)
        known = world.twins[id(callback)] = callback, twin
        if world.is_inside_function(callback):
            world.inside_function(twin)
        else:
            world.records[id(twin)] = world.record_of(callback)
    return known[1]
