"""functools.lru_cache and functools.cache on functions from outside.

What the cache holds is read and guarded like any outside value; a miss runs the cached function as part of the program
and puts the result into the real cache after the graph. Both count as hits and misses, in the order of the program.
A call with numbers that vary is part of the program, and made again after the graph, so that the cache knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import torch

from stator import _entry, _frames
from stator.code.needed import all_names
from stator.emit import effects
from stator.emit.emitter import Emitter
from stator.errors import Again
from stator.frame import RAISED, Frame
from stator.guards import constant
from stator.guards import path as paths
from stator.guards.check import EQ, IS
from stator.guards.path import Path
from stator.native import policy
from stator.native.addresses import pin_identity
from stator.native.callers import CALLERS, call_python
from stator.native.receivers import LruCache, check_cache
from stator.runtime.footprint import Footprint
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedInt
from stator.tensors.checks import assert_holds
from stator.tensors.traced import TracedTensor
from stator.world.constants import CONSTANT_TYPES
from stator.world.hollow_iterators import HollowIterator

MISSING = object()
ALIKE = frozenset({tuple, torch.Size, TracedInt, TracedFloat, TracedTensor})  # told apart by what is in them
SHARING = paths.const("results of cached functions that nobody can tell apart")


def is_constant(value: Any) -> bool:
    """A value that is equal to itself for ever, hashed and compared by C alone."""
    kind = type(value)
    return all(map(is_constant, value)) if kind in (tuple, frozenset) else kind in CONSTANT_TYPES


def is_key(host: Any, value: Any) -> bool:
    """Whether an argument is a key of its own: constants, and outside objects known by identity."""
    if is_constant(value):
        return True
    record = host.records.get(id(value))
    if record is None or record.inner is not value or record.obj is not value:
        return False
    if _frames.type_lookup(type(value), "__hash__") is not object.__hash__:
        return False
    pin_identity(host, value)
    return True


class Compatible:
    """Whether a cache holds nothing for a call, or this constant."""

    __slots__ = ("look", "value")

    def __init__(self, look: Any, value: Any) -> None:
        self.look = look
        self.value = value

    def __call__(self, wrapper: Any) -> bool:
        found = self.look(wrapper)
        return found is MISSING or constant.same(found, self.value)


def call_cached(host: Any, f: Frame, wrapper: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A call of a cached function. A break in there is at the call: the cache takes the result."""
    f.tail = -1
    function = getattr(wrapper, "__wrapped__", None)  # functools sets it after making one
    if id(wrapper) not in host.records:
        check_cache(host, wrapper)
    if id(wrapper) not in host.records or getattr(function, "__module__", None) in policy.VALUE_CACHES:
        return call_python(host, f, wrapper, [plain(arg) for arg in args], kwargs)
    if function is None:
        raise host.refuse("native-outside-object", "a function with lru_cache that was just made", function="lru_cache")
    if not all(is_key(host, value) for value in (*args, *(kwargs or {}).values())):
        recent(host, wrapper).add_varying()
        return called_through(host, f, wrapper, args, kwargs)
    given, named = tuple(args), dict(kwargs) if kwargs else None
    asked, key = recent(host, wrapper), _entry.cached_key(given, named, wrapper)
    if asked.has_dropped(host, key):
        known = call_again(host, f, wrapper, given, named)
    elif (known := host.cached.get((id(wrapper), key), MISSING)) is MISSING:
        known = looked_up(host, f, wrapper, given, named)
    asked.add(key)
    host.cached[id(wrapper), key] = known
    host.defer(_entry.cached_store, [wrapper, given, named, known], None)
    return known


def plain(value: Any) -> Any:
    """A symbolic int as the key that it will be: C code makes another one of what is no int by type."""
    return value.decay() if type(value) is TracedInt else value


class Through(NamedTuple):
    """A call with arguments that vary: what it was given and what it gave, with the parts that others may see."""

    wrapper: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parts: Footprint
    objects: list[Any]
    tensors: list[tuple[TracedTensor, Any]]


def called_through(host: Any, f: Frame, wrapper: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A call with arguments that vary, or that the program made: nobody can look them up.

    The function runs each time then, so it may have no effects, and nobody may see that each call makes new objects.
    """
    function = wrapper.__wrapped__
    name = getattr(function, "__qualname__", "a function")
    if SHARING in host.whole_paths:
        text = f"call of {name} with lru_cache and arguments that vary, whose result is written to or comes out"
        raise host.refuse("native-outside-object", text, function="lru_cache")
    if not all(may_vary(host, value) for value in (*args, *(kwargs or {}).values())):
        text = f"call of {name} with lru_cache and arguments that vary"
        raise host.refuse("native-outside-object", text, function="lru_cache")
    if host.differed and not names_read(wrapper.__wrapped__).isdisjoint(names_of(host.differed)):
        text = f"call of {name} with lru_cache and arguments that vary, after something that it reads has changed"
        raise host.refuse("native-outside-object", text, function="lru_cache")
    before, inner = state(host), len(host.through)
    given, named = tuple(args), dict(kwargs or {})
    passed = Footprint(host, [*given, *named.values()], alone=True)  # a cache gives what lies in there for these alone
    made = host.call(f, function, args, kwargs)
    if state(host) != before:
        text = f"call of {name} with lru_cache, effects and arguments that vary"
        raise host.refuse("native-outside-object", text, function="lru_cache")
    if host.recorder.sub is None:
        parts = Footprint(host, [made], alone=True)
        parts.leave_out(passed)
        theirs = {*map(id, passed.objects()), *map(id, given), *map(id, named.values())}
        held = [one for one in (made, *parts.objects()) if id(one) not in theirs]
        tensors = [(one, shown(one)) for one in held if type(one) is TracedTensor]
        objects = [one for one in held if not (type(one) in ALIKE or is_constant(one))]
        host.through[inner:] = [Through(wrapper, given, named, parts, objects, tensors)]  # it makes those within, too
    return made


def names_of(places: Iterable[Path]) -> Iterator[str]:
    """The names on the way to outside values."""
    for place in places:
        step: Path | None = place
        while step is not None:
            if type(step.key) is str:
                yield step.key
            step = step.parent


def names_read(function: Any) -> set[Any]:
    """The names by which a function, and those that it finds in its globals, read what is outside of it."""
    names: set[Any] = set()
    pending, seen = [function], set()
    while pending:
        function = pending.pop()
        if type(function) is not FunctionType or (code := function.__code__) in seen:
            continue
        seen.add(code)
        own = all_names(code)
        names |= own
        pending += [function.__globals__[name] for name in own if name in function.__globals__]
    return names


def shown(traced: TracedTensor) -> tuple[Any, ...]:
    return traced._meta, len(traced._storage.writes)


def check(host: Any, draft: Emitter, outputs: Any) -> None:
    """Where a cache would have given the same object again, nobody may see that the function made another one."""
    storages = {id(one._storage) for one in outputs}
    for call in host.through:
        comes_out = any(draft.builds(id(one)) for one in call.objects)
        is_seen = any(now != shown(one) or id(one._storage) in storages for one, now in call.tensors)
        if comes_out or is_seen or call.parts.differs():
            raise Again(SHARING)


def may_vary(host: Any, value: Any) -> bool:
    """Whether an argument is a key, a symbolic number, or an object that is new in each call."""
    kind = type(value)
    if kind is tuple or kind is torch.Size:
        return all(may_vary(host, item) for item in tuple.__iter__(value))
    if kind is TracedInt or kind is TracedFloat or is_key(host, value):
        return True
    new = kind is not TracedTensor and id(value) not in host.records
    return new and _frames.type_lookup(kind, "__hash__") is object.__hash__


def looked_up(host: Any, f: Frame, wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """What the cache holds, or what the function makes."""
    look = partial(_entry.cached_result, args, kwargs, MISSING)
    path = host.path_of(wrapper)
    inside = path.part(f"cached{args}", look)
    found = look(wrapper)
    recent(host, wrapper).look(host, found is not MISSING)
    if found is not MISSING:
        return host.enter(found, inside)
    before = state(host)
    made = call_again(host, f, wrapper, args, kwargs)
    if is_constant(made) and state(host) == before:
        host.guards.add(path.part(f"cached{args}", Compatible(look, made)), EQ, True, host.origin())
    else:  # once it is there, the function does not run again
        host.guards.add(inside, IS, MISSING, host.origin())
        host.fills_cache = host.fills_cache or has_room(wrapper)
    return made


def recent(host: Any, wrapper: Any) -> Recent:
    asked: Recent | None = host.recent.get(id(wrapper))
    if asked is None:
        asked = host.recent[id(wrapper)] = Recent(wrapper)
    return asked


class Recent:
    """The keys that the program has asked a cache for. Where it has no room, it drops the one not asked for longest."""

    def __init__(self, wrapper: Any) -> None:
        self.wrapper = wrapper
        self.most = wrapper.cache_info().maxsize
        self.keys: dict[Any, None] = {}  # those that are still there, the last one asked for at the end
        self.dropped: set[Any] = set()
        self.missed = 0  # entries that the cache may have got
        self.varies = False

    def add_varying(self) -> None:
        """A key that is another one each time."""
        self.varies = True
        self.missed += 1
        self.add(object())

    def add(self, key: Any) -> None:
        self.keys.pop(key, None)
        self.keys[key] = None
        self.dropped.discard(key)
        if self.most is not None and len(self.keys) > self.most:
            self.dropped.add(first := next(iter(self.keys)))
            del self.keys[first]

    def has_dropped(self, host: Any, key: Any) -> bool:
        if key in self.dropped and self.varies:  # what was asked for may have been this very key
            raise self.refusal(host)
        return key in self.dropped

    def look(self, host: Any, found: bool) -> None:
        """The program asks for a key the first time: if it was there when the call began, it must be there still."""
        if self.most is None:
            return
        if not found:
            self.missed += 1
        elif self.missed:
            room = Room(self.missed)
            if not room(self.wrapper):
                if host.may_break:
                    raise self.refusal(host)
                return  # what the function made then is as good as what it would make now
            path = host.path_of(self.wrapper).part(f"room for {room.entries}", room)
            host.guards.add(path, EQ, True, host.origin())

    def refusal(self, host: Any) -> Any:
        name = getattr(self.wrapper, "__qualname__", "a function")
        text = f"call of {name} with lru_cache, which may have dropped the result since the call began"
        return host.refuse("native-outside-object", text, function="lru_cache")


class Room:
    """Whether a cache takes some more entries without dropping others."""

    __slots__ = ("entries",)

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def __call__(self, wrapper: Any) -> bool:
        kept = wrapper.cache_info()
        return bool(kept.currsize + self.entries <= kept.maxsize)


def call_again(host: Any, f: Frame, wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """What the function makes, whatever the cache holds."""
    try:
        return host.call(f, wrapper.__wrapped__, list(args), kwargs)
    except BaseException as raised:
        if raised is RAISED:
            raise host.refuse("native-outside-object", "a cached function that raises", function="lru_cache") from None
        raise


def has_room(wrapper: Any) -> bool:
    """Whether a cache keeps what is put into it, and lets go of nothing else."""
    kept = wrapper.cache_info()
    return kept.maxsize is None or kept.currsize < kept.maxsize


def state(host: Any) -> list[Any]:
    """What the program has changed so far; a check of data changes nothing."""
    kept = sum(node.target is not assert_holds for node in host.recorder.kept)
    written: list[Any] = [len(host.effects), kept, len(host.class_writes)]
    written += [id(row[3]) for row in host.cells.values() if row[3] is not row[2]]
    written += [(key, tuple(space.changes())) for key, space in host.namespaces.items() if space.touched or space.full]
    for record in {id(record): record for record in host.records.values()}.values():
        written += [(name, id(now)) for name, (was, now, _) in (record.extra or {}).items() if now is not was]
        hollow = record.hollow
        if isinstance(hollow, HollowIterator):
            written.append((hollow.taken, hollow.ended))
        elif hollow is not None:
            written += list(hollow.operations())
        elif record.before is not None and (now := contents_of(record)) != items_of(record.before):
            written.append((id(record), now))
    return written


def contents_of(record: Any) -> Any:
    """What a shadow holds now; where that cannot be told, it counts as changing each time."""
    try:
        return items_of(effects.snapshot(record.inner))
    except (KeyError, TypeError, ValueError):
        return object()


def items_of(contents: Any) -> Any:
    """Contents compared by identity."""
    if isinstance(contents, (list, tuple)):
        return [items_of(item) if isinstance(item, tuple) else effects.token(item) for item in contents]
    return contents


CALLERS[id(LruCache)] = call_cached
