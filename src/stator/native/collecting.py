"""Collections that the program asks for: its classes end there, which only a collector can end."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin


@standin(gc.collect)
def stand_collect(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What dies by it dies when CPython calls it; a whole graph has it among the effects.

    Objects that only the capture still holds would not exist for CPython, so that their finalizers would never run; or
    what weak references lead to would be held by what goes on behind a break.
    """
    if not host.patient:
        if host.finalizable or host.refers_weakly:
            raise host.refuse("interpreter-watched", "gc.collect()", function="gc.collect")
        raise host.refuse("native-effect", "gc.collect()", function="gc.collect")
    callbacks = gc.callbacks[:]  # whoever wants to know will be told when the effect happens
    gc.callbacks.clear()
    try:
        let_go(host)
        result = call_python(host, f, function, args, kwargs)
    finally:
        take_back(host)
        gc.callbacks[:0] = callbacks
    host.defer(function, args, kwargs)
    return result


def let_go(host: Host) -> None:
    """The capture knows the classes that the program made without holding them."""
    known: dict[int, Any] = host.inside_types
    for address, cls in known.items():
        known[address] = weakref.ref(cls)
        for table in (host.types, host.described, host.callers, host.checked_classes):
            table.pop(address, None)  # what they hold is found again


def take_back(host: Host) -> None:
    known: dict[int, Any] = host.inside_types
    for address, reference in list(known.items()):
        if type(reference) is weakref.ref:  # else made by a finalizer
            cls = reference()
            if cls is None:
                del known[address]
            else:
                known[address] = cls
