"""Weak references made during capture: their callbacks belong to the captured program."""

from __future__ import annotations

import weakref
from typing import Any

from stator import _frames
from stator.frame import Frame
from stator.native.host import CALLERS, Host, call_c_object, call_python, standin
from stator.world.lazy import Lazy


def observed(callback: Any) -> Any:
    """The callback as the reference keeps it: fires inside a span, and never after the capture it belongs to."""

    def fire(reference: Any) -> None:
        if _frames.capturing() and _frames.top_frame() is not None:
            _frames.native(callback, reference)

    return fire


@standin(weakref.ref, weakref.proxy, weakref.ref.__new__)
def stand_reference(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """ref(obj, callback), proxy(obj, callback), ref.__new__(cls, obj, callback)."""
    index = 2 if function is weakref.ref.__new__ else 1
    if len(args) > index and args[index] is not None:
        args = [*args[:index], observed(args[index]), *args[index + 1 :]]
    return call_python(host, f, function, args, kwargs)


def call_reference(host: Host, f: Frame, obj: Any, args: list[Any], kwargs: Any) -> Any:
    """What is referred to, if the program still has it: what a break has carried over lives until the next break."""
    if host.carried:
        referent = weakref.ref.__call__(obj)
        if referent is not None and any(value is referent for value in host.carried) and not is_held(host, f, referent):
            name = type(referent).__name__
            raise host.refuse("native-outside-object", f"a weak reference to a {name} that may be gone", function="ref")
    return call_c_object(host, f, obj, args, kwargs)


def is_held(host: Host, f: Frame, obj: Any) -> bool:
    """Whether an outside object is in a variable of a running frame, or on its stack."""
    record = host.records.get(id(obj))
    inner = obj if record is None else record.inner
    frame: Frame | None = f
    while frame is not None:
        for value in (*frame.locals, *frame.stack):
            if value is obj or value is inner or (type(value) is Lazy and value.value is obj):
                return True
        frame = frame.outer
    return False


CALLERS[id(weakref.ref)] = call_reference
