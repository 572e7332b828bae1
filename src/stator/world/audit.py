"""Audit mode: proof at run time that native code never meets an outside object that did not come through the door."""

from __future__ import annotations

import gc
import os
import types
import typing
from collections import deque
from typing import Any

from stator import _frames
from stator.errors import InternalError

ENABLED = os.environ.get("STATOR_AUDIT", "") not in ("", "0")
CONTAINERS = (list, dict, set, deque, bytearray)
ALIASES: Any = vars(typing)["_BaseGenericAlias"]  # `List[int]` and the like, which typing keeps in caches
NOT_INSTANCES = (type, types.FunctionType, types.ModuleType, BaseException, ALIASES)


SETTLED: list[Any] = []  # objects that were there before any capture, and stay


def settle() -> None:
    """What exists now stays for good: audits need not look for it again. The collector leaves it alone, too."""
    SETTLED.append(_frames.Identities(gc.get_objects()))
    gc.freeze()


class Audit:
    """Knows every object that existed when the capture began."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.existed: Any = _frames.Identities(gc.get_objects())

    def is_outside(self, value: Any) -> bool:
        return value in self.existed or any(value in settled for settled in SETTLED)

    def check(self, function: Any, values: Any) -> None:
        """Raise if one of the values is an outside object that nobody registered."""
        for value in values:
            if id(value) in self.world.hollow and type(function) is not types.FunctionType:
                raise InternalError(f"audit: {function!r} met a hollow {type(value).__qualname__}")
            known = id(value) in self.world.records or self.world.is_known(value)
            if not known and is_mutable(value) and self.is_outside(value):
                name = getattr(function, "__qualname__", repr(function))
                raise InternalError(f"audit: {name} met an outside {type(value).__qualname__} around the door")


def is_mutable(value: Any) -> bool:
    """Containers and instances of Python classes; classes, functions and modules are guarded by other means.

    What `typing` makes and keeps in its caches never changes; stand-ins belong to one capture, but may lie where
    something lay that has died.
    """
    cls = type(value)
    if cls.__module__.partition(".")[0] in ("typing", "stator"):
        return False
    if issubclass(cls, CONTAINERS):
        return True
    return _frames.is_heap_type(cls) and not issubclass(cls, NOT_INSTANCES)
