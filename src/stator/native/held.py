"""What a break has carried over lives until the next break, whether or not the program still has it."""

from __future__ import annotations

import weakref
from typing import Any

from stator.frame import Frame
from stator.world.lazy import Lazy
from stator.world.world import World


def check_referent(world: World, f: Frame, reference: Any) -> None:
    """A break before the program asks a weak reference for an object that it has dropped since the last one."""
    if not world.carried:
        return
    referent = weakref.ref.__call__(reference)
    if referent is not None and any(value is referent for value in world.carried) and not is_held(world, f, referent):
        name = type(referent).__name__
        raise world.refuse("native-outside-object", f"a weak reference to a {name} that may be gone", function="ref")


def is_held(world: World, f: Frame, obj: Any) -> bool:
    """Whether an outside object is in a variable of a running frame, or on its stack."""
    record = world.records.get(id(obj))
    inner = obj if record is None else record.inner
    frame: Frame | None = f
    while frame is not None:
        for value in (*frame.locals, *frame.stack):
            if value is obj or value is inner or (type(value) is Lazy and value.value is obj):
                return True
        frame = frame.outer
    return False
