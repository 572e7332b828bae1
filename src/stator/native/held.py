"""Objects that the program has let go of but that live on: until the next break, or until the effects are applied."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterable, Iterator
from types import MemberDescriptorType
from typing import Any

from stator.frame import UNBOUND, Frame
from stator.native.ends import endings, ends_with_code, held_by
from stator.world.generators import SUSPENDED, state_of
from stator.world.lazy import Lazy
from stator.world.shadows import fields_of, slot_value
from stator.world.world import World

MOST_ELSEWHERE = 20_000  # objects among which one is sought that is to live on


def check_referent(world: World, f: Frame, reference: Any) -> None:
    """A break before the program asks a weak reference for an object that it has dropped since the last one."""
    referent = weakref.ref.__call__(reference)
    if referent is None:
        return
    carried = any(value is referent for value in world.carried)
    if (carried or was_dropped(world, referent)) and not is_held(world, f, referent):
        raise gone(world, referent)
    if not carried and lives_on(world, f, referent):
        raise gone(world, referent)


def lives_on(world: World, f: Frame, referent: Any) -> bool:
    """Whether nothing but what came over the break, and left its variables since, may keep an object alive."""
    left = [value for value in world.carried if not is_held(world, f, value)]
    if not left or not any(one is referent for one in held_by(left)):
        return False
    return all(one is not referent for one in still_held(world, held_values(world, f)))


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


def notice_end(world: World, f: Frame | None, value: Any, kept: tuple[Any, ...] = ()) -> None:
    """A variable that had this has something else now, or nothing; `f` and its callers go on, with what is `kept`."""
    obj = value.value if type(value) is Lazy else value
    record = world.records.get(id(obj))
    obj = obj if record is None else record.obj
    if not any(carried is obj for carried in world.carried) or is_held(world, f, obj, kept):
        return
    ending = [one for one in endings(obj) if still_ends(world, one)]
    if type(obj) in SUSPENDED and still_ends(world, obj):
        ending.append(obj)
    if not ending:
        return
    held = {id(one) for one in still_held(world, held_values(world, f, kept))}
    for one in ending:
        if id(one) not in held:
            world.departed = type(one).__name__


def notice_return(world: World, f: Frame) -> None:
    """A frame returns to another one that goes on: its variables are gone."""
    if f.outer is not None:
        for value in {id(value): value for value in f.locals if value is not UNBOUND}.values():
            notice_end(world, f.outer, value, (f.stack[-1],))


def still_ends(world: World, obj: Any) -> bool:
    """Whether the end of an object runs code also where the program has come to; one may have driven a generator."""
    record = world.records.get(id(obj))
    return ends_with_code(obj if record is None or type(obj) not in SUSPENDED else record.inner)


def notice_perished(world: World, f: Frame) -> None:
    """The same for generators that the program drives: an instruction may have taken the last one from a stack."""
    for obj in list(world.perishable):
        if state_of(world.records[id(obj)].inner) is None:
            world.perishable.remove(obj)
        elif still_ends(world, obj) and not is_held(world, f, obj):
            world.departed = type(obj).__name__


def check_callbacks(world: World) -> None:
    """No outside object dies by the effects of a capture that knows a callback for its death."""
    for referent in world.mourned.values():
        if was_dropped(world, referent):
            raise gone(world, referent)


def still_held(world: World, values: Iterable[Any]) -> Iterator[Any]:
    """What some values of the program hold, by the attributes that it has written."""

    def contents(obj: Any) -> list[Any]:
        namespace, record = world.namespaces.get(id(obj)), world.records.get(id(obj))
        if namespace is not None:
            left = [value for name, value in namespace.real.items() if name not in namespace.touched]
            return left + [namespace.values.get(name) for name in namespace.touched]
        if (cell := world.cells.get(id(obj))) is not None:
            return [cell[3]]
        if record is not None and record.inner is not obj:
            return [record.inner]
        if record is None or type(record.extra) is not dict:
            return gc.get_referents(obj)
        overwritten = {id(old) for old, new, *_ in record.extra.values() if old is not new}
        left = [one for one in gc.get_referents(obj) if id(one) not in overwritten]
        return left + [new for _, new, *_ in record.extra.values()]

    return held_by(values, MOST_ELSEWHERE, contents)


class Watched:
    """An object that came over the break, whose end runs code, and how many references to it there were last."""

    __slots__ = ("count", "obj")

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.count = sys.getrefcount(obj)


def watch(world: World) -> None:
    """From now on the ends of what came over the break are looked out for."""
    world.watched_ends = [Watched(one) for one in held_by(world.carried) if ends_with_code(one)]


def look_out(world: World, f: Frame) -> None:
    """Notices that the last reference of the program to such an object is gone: the next instruction is a break."""
    for watched in world.watched_ends:
        count = sys.getrefcount(watched.obj)
        fewer, watched.count = count < watched.count, count
        if fewer and still_ends(world, watched.obj) and not is_kept(world, f, watched.obj):
            world.departed = type(watched.obj).__name__


def is_kept(world: World, f: Frame, obj: Any) -> bool:
    """Whether the program can still come to an object, by its variables or by what it has written to."""
    roots = [*held_values(world, f)]
    for _, now in changed_references(world):
        roots += now
    record = world.records.get(id(obj))
    inner = obj if record is None else record.inner
    return any(one is obj or one is inner for one in still_held(world, roots))


class Dropped:
    """Stands among the types that a capture must not make for an end that its effects would bring about."""


def dropped_ending(world: World, kept: Iterable[Any]) -> Any:
    """An object whose end runs code, that was taken out of outside containers, attributes and variables; or None."""
    lost: list[Any] = []
    roots = [*kept]
    for before, now in changed_references(world):
        present = {id(value) for value in now}
        lost += [value for value in before if id(value) not in present]
        roots += now
    ending = [one for one in held_by(lost) if ends_with_code(one)]
    if not ending:
        return None
    held = {id(one) for one in still_held(world, roots)}
    for one in ending:
        record = world.records.get(id(one))
        if id(one) not in held and (record is None or id(record.inner) not in held):
            return one
    return None


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
        for old, new, *rest in (record.extra or {}).values() if type(record.extra) is dict else ():
            if old is UNBOUND and rest and type(rest[0]) is MemberDescriptorType:  # perhaps written without a look
                old = slot_value(rest[0], record.obj)
            if old is not new:
                yield [old], [new]
    for inner, fields in world.shadow_fields.values():
        yield [*fields.values()], [*fields_of(inner).values()]
    for namespace in {id(namespace): namespace for namespace in world.namespaces.values()}.values():
        for name, value in namespace.changes():
            yield [namespace.real.get(name)], [value]
    for _, _, old, new in world.cells.values():
        if old is not new:
            yield [old], [new]


def is_held(world: World, f: Frame | None, obj: Any, kept: tuple[Any, ...] = ()) -> bool:
    """Whether an outside object is in a variable of a running frame, or on its stack."""
    record = world.records.get(id(obj))
    inner = obj if record is None else record.inner
    return any(value is obj or value is inner for value in held_values(world, f, kept))


def held_values(world: World, f: Frame | None, kept: tuple[Any, ...] = ()) -> Iterator[Any]:
    """What is in variables and on the stacks of running frames, as far as it entered in its inner form."""
    frame, values = f, [*kept]
    while frame is not None:
        values += (*frame.locals, *frame.stack)
        frame = frame.outer
    return (seen(world, value) for value in values)


def seen(world: World, value: Any) -> Any:
    """A value as the program sees it: one that has not entered by any way is what it was."""
    if type(value) is not Lazy:
        return value
    record = world.records.get(id(value.value))
    return value.value if record is None else record.inner
