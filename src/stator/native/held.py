"""Objects that the program has let go of but that live on: until the next break, or until the effects are applied."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import CoroutineType, FunctionType, GeneratorType
from typing import Any

from stator import _frames
from stator.frame import UNBOUND, Frame
from stator.world.lazy import Lazy
from stator.world.world import World


def check_referent(world: World, f: Frame, reference: Any) -> None:
    """A break before the program asks a weak reference for an object that it has dropped since the last one."""
    referent = weakref.ref.__call__(reference)
    if referent is None:
        return
    carried = any(value is referent for value in world.carried)
    if (carried or was_dropped(world, referent)) and not is_held(world, f, referent):
        raise gone(world, referent)


def entered(world: World, reference: Any, referent: Any) -> Any:
    """What a weak reference was asked for, as the program sees it: one from outside leads to an outside object."""
    record = world.records.get(id(referent))
    if record is not None:
        return record.inner
    if id(reference) not in world.records:
        return referent
    return world.enter(referent, world.path_of(reference).part("referent", weakref.ref.__call__))


def gone(world: World, referent: Any) -> Exception:
    name = type(referent).__name__
    return world.refuse("native-outside-object", f"a weak reference to a {name} that may be gone", function="ref")


def notice_end(world: World, f: Frame, value: Any) -> None:
    """A variable that had this has something else now, or nothing."""
    record = None if type(value) is Lazy else world.records.get(id(value))
    obj = value.value if type(value) is Lazy else value if record is None else record.obj
    if ends_with_code(obj) and any(carried is obj for carried in world.carried) and not is_held(world, f, obj):
        world.departed = type(obj).__name__


def ends_with_code(obj: Any) -> bool:
    """Whether code of the program may run when an object dies."""
    kind = type(obj)
    if kind is GeneratorType or kind is CoroutineType:
        return (obj.gi_frame if kind is GeneratorType else obj.cr_frame) is not None
    if not _frames.is_heap_type(kind) or issubclass(kind, type):
        return False
    if _frames.type_lookup(kind, "__del__") is not UNBOUND:
        return True
    return _frames.type_lookup(kind, "__weakref__") is not UNBOUND and any(map(calls_back, weakref.getweakrefs(obj)))


def calls_back(reference: Any) -> bool:
    """Whether the program, or a library, waits for the end of an object; stator and torch do so on their own behalf."""
    if not issubclass(type(reference), weakref.ref):  # a proxy asks the object
        return True
    callback = reference.__callback__
    if type(callback) is not FunctionType:
        return callback is not None
    home = callback.__module__
    return not (type(home) is str and home.startswith(("stator.", "torch.")))


def check_callbacks(world: World) -> None:
    """No outside object dies by the effects of a capture that knows a callback for its death."""
    for referent in world.mourned.values():
        if was_dropped(world, referent):
            raise gone(world, referent)


def was_dropped(world: World, inner: Any) -> bool:
    """Whether the program has taken an outside object out of an outside container, attribute or variable."""
    record = world.records.get(id(inner))
    if record is None:
        return False
    kept = False
    lost = False
    for before, now in changed_references(world):
        kept = kept or any(value is inner for value in now)
        lost = lost or any(value is record.obj or value is inner for value in before)
    return lost and not kept


def changed_references(world: World) -> Iterator[tuple[list[Any], list[Any]]]:
    """What each outside object that may have been written to held before, and holds now."""
    for record in {id(record): record for record in world.records.values()}.values():
        if record.hollow is not None:
            if record.hollow.operations():
                yield gc.get_referents(record.obj), gc.get_referents(record.inner)
        elif record.before is not None:
            yield gc.get_referents(record.obj), gc.get_referents(record.inner)
        for old, new, *_ in (record.extra or {}).values() if type(record.extra) is dict else ():
            if old is not new:
                yield [old], [new]
    for namespace in {id(namespace): namespace for namespace in world.namespaces.values()}.values():
        for name, value in namespace.changes():
            yield [namespace.real.get(name)], [value]
    for _, _, old, new in world.cells.values():
        if old is not new:
            yield [old], [new]


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
