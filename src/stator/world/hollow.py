"""Hollow shadows: outside containers and iterators that are read and written item by item.

A hollow container is an empty object of the right type that stands for the outside one. It lives in registers of the
interpreter only (stack, locals, cells, overlays of attributes). What the program does to it is answered here, with a
guard on just what was looked at, and writes are noted as operations. Everything else fills it first.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any

from stator import _entry, _frames
from stator.errors import Again
from stator.frame import Frame, native
from stator.guards.check import EQ, HAS_ELEMENT, KEYS, LEN, NO_ELEMENT, NO_KEY, NOT_EMPTY, PRESENT, TYPE_IS
from stator.guards.constant import is_plain
from stator.guards.path import ARG
from stator.world.door import IDENTITY_HASHES, fill_deque, fill_list, fill_mapping, fill_set, shadow
from stator.world.lazy import Lazy

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World

LARGE = 64  # containers with more elements are hollow from the start
DECLINED: Any = object()  # an answer: fill it and do what is usual
ABSENT: Any = object()
END: Any = object()

Operation = tuple[str, tuple[Any, ...]]  # name of a method, arguments


class Hollow:
    """One hollow container or iterator."""

    methods: frozenset[str] = frozenset()  # served by `call`

    def __init__(self, world: World, record: Record) -> None:
        self.world = world
        self.record = record
        self.obj = record.obj
        self.path = record.path
        self.inner = record.inner

    def guard(self, check: Any, key: Any = None, path: Path | None = None) -> None:
        self.world.guards.add(self.path if path is None else path, check, key, self.world.origin())

    def item(self, f: Frame, key: Any) -> Any:
        return DECLINED

    def put(self, f: Frame, key: Any, value: Any) -> Any:
        return DECLINED

    def drop(self, f: Frame, key: Any) -> Any:
        return DECLINED

    def contains(self, f: Frame, key: Any) -> Any:
        return DECLINED

    def add_in_place(self, f: Frame, values: Any) -> Any:
        """`x += values`; None if done."""
        return DECLINED

    def truth(self) -> Any:
        return DECLINED

    def length(self) -> Any:
        return DECLINED

    def fold(self, f: Frame, function: Any) -> Any:
        """`sum`, `min` or `max` of it."""
        return DECLINED

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        """A method of `methods`, called without keywords."""
        return getattr(self, f"_{name}")(f, *args) if len(args) in ARITIES[name] else DECLINED

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        """The next element of an iterator, not entered yet if that will do, or END."""
        return DECLINED

    def operations(self) -> list[Operation]:
        """What the program did to the outside object."""
        return []

    def fill(self) -> None:
        """Import the contents into the inner object, with all guards, and apply the operations."""
        raise NotImplementedError

    def apply(self, base: Any) -> None:
        for name, args in self.operations():
            getattr(base, name)(self.inner, *args)

    def count(self) -> Any:
        """How many elements the outside container has: a number as others, which may come to vary."""
        return self.world.enter(len(self.obj), self.path.part("length", len))

    def is_some(self, before: int) -> bool:
        """Whether the outside container, with `before` elements now, is not empty."""
        self.guard(*(NOT_EMPTY,) if before else (LEN, 0))
        return before > 0


ARITIES: dict[str, tuple[int, ...]] = {
    "append": (1,), "appendleft": (1,), "extend": (1,), "get": (1, 2), "setdefault": (1, 2), "update": (1,),
    "add": (1,), "discard": (1,), "remove": (1,),
}  # fmt: skip


# Iterables whose elements are there already, so that none of the program's code runs between two of them.
READY = frozenset({list, tuple, dict, set, frozenset, range, str, bytes})


# What lists of plain numbers come to; from Python 3.12 on a sum cannot go on from a part of it without loss.
FOLDS: dict[Any, Any] = {function: _entry.plain_fold(function) for function in (sum, min, max)}
COMPENSATED = frozenset({sum} if sys.version_info >= (3, 12) else ())


class HollowList(Hollow):
    """The outside list without its last `popped` items, then `added`."""

    methods = frozenset({"append", "extend", "pop"})

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.popped = 0
        self.added: list[Any] = []

    def item(self, f: Frame, key: Any) -> Any:
        if type(key) is slice:
            return self.slice(f, key)
        if type(key) is not int:
            return DECLINED
        size = list.__len__(self.obj)
        if key < 0:
            if -key <= len(self.added):
                return self.added[key]
            key += len(self.added) - self.popped
            if -key > size:
                return DECLINED
        elif self.popped or key >= size:
            return DECLINED
        return self.world.light(list.__getitem__(self.obj, key), self.path.item(key))

    def slice(self, f: Frame, key: Any) -> Any:
        """The last ones or the first ones, if there are so many; as they are all if there are fewer of the last."""
        size = list.__len__(self.obj) - self.popped
        if key.step is not None or not {type(key.start), type(key.stop)} <= {int, NoneType}:
            return DECLINED
        if key.stop is None and key.start is not None and key.start < 0:
            numbers = range(max(key.start, -size - len(self.added)), 0)
            if len(numbers) < -key.start:
                self.guard(LEN, size + self.popped)
        elif not key.start and key.stop is not None and 0 <= key.stop <= size:
            numbers = range(key.stop)
        else:
            return DECLINED
        found = [self.item(f, number) for number in numbers]
        if any(value is DECLINED for value in found):
            return DECLINED
        return [self.world.settled(value) for value in found]

    def fold(self, f: Frame, function: Any) -> Any:
        if self.popped or (self.added and function in COMPENSATED):
            return DECLINED
        folded = FOLDS[function]
        before = folded(self.obj)
        if before is None:
            return DECLINED
        value = self.world.enter(before, self.path.part(function.__name__, folded))
        return self.world.call(f, function, [[value, *self.added]], None) if self.added else value

    def add_in_place(self, f: Frame, values: Any) -> Any:
        return self._extend(f, values) if type(values) in (list, tuple) else DECLINED

    def truth(self) -> Any:
        if self.added:
            return True
        return DECLINED if self.popped else self.is_some(list.__len__(self.obj))

    def length(self) -> Any:
        return self.count() + (len(self.added) - self.popped)

    def _append(self, f: Frame, value: Any) -> None:
        self.added.append(value)

    def _extend(self, f: Frame, values: Any) -> Any:
        return self.added.extend(values) if type(values) in READY else DECLINED

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        return self.pop(f, args) if name == "pop" else super().call(f, name, args)

    def pop(self, f: Frame, args: list[Any]) -> Any:
        if args and args != [-1]:
            return DECLINED
        if self.added:
            return self.added.pop()
        value = self.item(f, -1)
        if value is not DECLINED:
            self.guard(PRESENT, None, self.path.item(-1 - self.popped))
            self.popped += 1
        return value

    def operations(self) -> list[Operation]:
        done: list[Operation] = []
        if self.popped:
            done.append(("__delitem__", (slice(-self.popped, None),)))
        if self.added:
            done.append(("append", (self.added[0],)) if len(self.added) == 1 else ("extend", (tuple(self.added),)))
        return done

    def fill(self) -> None:
        fill_list(self.world, self.record)
        self.apply(list)


class Keyed(Hollow):
    """Dicts and sets: what is known of keys after the writes so far, and the writes."""

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.now: dict[Any, Any] = {}  # key -> value, or ABSENT
        self.done: list[Operation] = []
        self.removed = False

    def had(self, key: Any) -> bool:
        """Whether the outside container has the key, which gets guarded."""
        raise NotImplementedError

    def has(self, key: Any) -> bool:
        known = self.now.get(key, self)
        return self.had(key) if known is self else known is not ABSENT

    def contains(self, f: Frame, key: Any) -> Any:
        return self.has(key) if is_simple(key) else DECLINED

    def truth(self) -> Any:
        if any(value is not ABSENT for value in self.now.values()):
            return True
        return DECLINED if self.now else self.is_some(len(self.obj))

    def length(self) -> Any:
        return self.count() + sum((value is not ABSENT) - self.had(key) for key, value in self.now.items())

    def note(self, method: str, key: Any, *value: Any) -> None:
        self.done.append((method, (key, *value)))
        self.now[key] = value[0] if value else True

    def erase(self, method: str, key: Any) -> None:
        self.done.append((method, (key,)))
        self.now[key] = ABSENT
        self.removed = True


LOOPED = frozenset({"keys", "values", "items"})  # methods whose results a loop goes over: `hollow_entries`


class HollowDict(Keyed):
    methods = frozenset({"get", "setdefault", "pop", "update"}) | LOOPED

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.gone_over = False

    def lasting_keys(self) -> list[Any] | None:
        """All keys, guarded, for a loop over them; None if they are not those of the outside dict or not simple."""
        keys = list(dict.keys(self.obj))
        if self.removed or not all(map(is_simple, keys)) or not self.now.keys() <= self.obj.keys():
            return None
        self.guard(KEYS, tuple(keys))
        self.gone_over = True
        return keys

    def note(self, method: str, key: Any, *value: Any) -> None:
        if self.gone_over and not dict.__contains__(self.obj, key):
            raise Again(self.path)
        super().note(method, key, *value)

    def erase(self, method: str, key: Any) -> None:
        if self.gone_over:
            raise Again(self.path)
        super().erase(method, key)

    def had(self, key: Any) -> bool:
        if dict.__contains__(self.obj, key):
            self.guard(PRESENT, None, self.path.entry(key))
            return True
        self.guard(NO_KEY, key)
        return False

    def read(self, key: Any) -> Any:
        """The value of a simple key now, or ABSENT."""
        if key in self.now:
            return self.now[key]
        value = dict.get(self.obj, key, ABSENT)
        if value is ABSENT:
            self.guard(NO_KEY, key)
            return ABSENT
        return self.world.light(value, self.path.entry(key))

    def item(self, f: Frame, key: Any) -> Any:
        if not is_simple(key):
            return DECLINED
        value = self.read(key)
        return native(f, operator.getitem, {}, key) if value is ABSENT else value

    def put(self, f: Frame, key: Any, value: Any) -> Any:
        if not is_simple(key):
            return DECLINED
        return self.note("__setitem__", key, value)

    def drop(self, f: Frame, key: Any) -> Any:
        if not is_simple(key):
            return DECLINED
        if not self.has(key):
            return native(f, operator.delitem, {}, key)
        return self.erase("__delitem__", key)

    def _get(self, f: Frame, key: Any, default: Any = None) -> Any:
        if not is_simple(key):
            return DECLINED
        value = self.read(key)
        return default if value is ABSENT else value

    def _setdefault(self, f: Frame, key: Any, default: Any = None) -> Any:
        value = self._get(f, key, ABSENT)
        if value is ABSENT:
            self.note("__setitem__", key, default)
            return default
        return value

    def _update(self, f: Frame, other: Any) -> Any:
        if type(other) is not dict or not all(map(is_simple, other)):
            return DECLINED
        for key, value in other.items():
            self.note("__setitem__", key, value)
        return None

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        if name in LOOPED:
            return DECLINED
        return self.pop(f, args) if name == "pop" else super().call(f, name, args)

    def pop(self, f: Frame, args: list[Any]) -> Any:
        if not 1 <= len(args) <= 2 or not is_simple(args[0]):
            return DECLINED
        value = self.read(args[0])
        if value is ABSENT:
            return args[1] if len(args) == 2 else native(f, dict.pop, {}, args[0])
        if args[0] not in self.now:
            self.guard(PRESENT, None, self.path.entry(args[0]))
        self.erase("__delitem__", args[0])
        return value

    def operations(self) -> list[Operation]:
        """In order; without deletions only the last value of each key counts."""
        if self.removed:
            return self.done
        return [("__setitem__", pair) for pair in self.now.items()]

    def fill(self) -> None:
        fill_mapping(self.world, self.record)
        self.apply(dict)


class HollowDefaultDict(HollowDict):
    """Missing items are made by the factory, as the program would."""

    def item(self, f: Frame, key: Any) -> Any:
        if not is_simple(key):
            return DECLINED
        value = self.read(key)
        if value is ABSENT:
            if self.inner.default_factory is None:
                return native(f, operator.getitem, self.inner, key)
            value = self.world.call(f, self.inner.default_factory, [], None)
            self.note("__setitem__", key, value)
        return value


class HollowSet(Keyed):
    methods = frozenset({"add", "discard", "remove"})

    def had(self, key: Any) -> bool:
        found = set.__contains__(self.obj, key)
        self.guard(HAS_ELEMENT if found else NO_ELEMENT, key)
        return found

    def _add(self, f: Frame, key: Any) -> Any:
        return self.note("add", key) if is_simple(key) else DECLINED

    def _discard(self, f: Frame, key: Any) -> Any:
        return self.erase("discard", key) if is_simple(key) else DECLINED

    def _remove(self, f: Frame, key: Any) -> Any:
        if not is_simple(key):
            return DECLINED
        return self.erase("remove", key) if self.has(key) else native(f, set.remove, set(), key)

    def operations(self) -> list[Operation]:
        return self.done

    def fill(self) -> None:
        fill_set(self.world, self.record)
        self.apply(set)


class HollowDeque(Hollow):
    methods = frozenset({"append", "appendleft", "extend"})

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.done: list[Operation] = []
        self.left = False

    def item(self, f: Frame, key: Any) -> Any:
        size, added = len(self.obj), 0 if self.left else len(self.done)
        if type(key) is not int or (self.done and (self.left or self.obj.maxlen is not None)):
            return DECLINED
        if key < 0:
            if -key <= added:
                return self.done[key][1][0]
            key += added
        if not -size <= key < size:
            return DECLINED
        return self.world.light(deque.__getitem__(self.obj, key), self.path.seq(key))

    def truth(self) -> Any:
        return DECLINED if self.done else self.is_some(len(self.obj))

    def length(self) -> Any:
        if self.done and self.obj.maxlen is not None:
            return DECLINED
        return self.count() + len(self.done)

    def _append(self, f: Frame, value: Any) -> None:
        self.done.append(("append", (value,)))

    def _appendleft(self, f: Frame, value: Any) -> None:
        self.done.append(("appendleft", (value,)))
        self.left = True

    def _extend(self, f: Frame, values: Any) -> Any:
        if type(values) not in READY:
            return DECLINED
        return self.done.extend(("append", (value,)) for value in values)

    def operations(self) -> list[Operation]:
        return self.done

    def fill(self) -> None:
        fill_deque(self.world, self.record)
        self.apply(deque)


WINDOW = 64


def window_start(taken: int) -> int:
    """Where the window of an element begins: 0, 1, 16, 64, 128, …; most programs look at the next one or at all."""
    return taken - taken % WINDOW if taken >= WINDOW else 16 if taken >= 16 else min(taken, 1)


class HollowIterator(Hollow):
    """An outside iterator: elements are read without advancing it; that is done once, at the end."""

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.taken = 0
        self.ended = 0
        self.windows: dict[int, tuple[Any, ...]] = {}
        self.below = _entry.beneath(self.obj)
        path = self.path.beneath()
        self.guard(LEN, len(self.below), path)
        for i, thing in enumerate(self.below):
            self.guard(TYPE_IS, type(thing), path.item(i))
            world.beneath[id(thing)] = (thing, path.item(i), self)

    def truth(self) -> Any:
        return True

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        if any(self.world.is_reachable(thing) for thing in self.below):
            self.fill()
        start = window_start(self.taken)
        window = self.windows.get(start)
        if window is None:
            window = self.windows[start] = _entry.upcoming(start, self.obj)
        path = self.path.upcoming(start)
        at = self.taken - start
        if at == len(window):
            self.guard(LEN, at, path)
            self.ended += 1
            return END
        self.taken += 1
        self.guard(PRESENT, None, path.item(at))
        element = Lazy(window[at], path.item(at))
        return element if lazily else element.force(self.world)

    def fill(self) -> None:
        raise Again(self.path)


# Whether a container may be hollow.


PLAIN_KINDS = {id(kind) for kind in (str, int, float, bool, bytes, complex, type(None))}


def is_simple(key: Any) -> bool:
    """Whether a guard can look the key up: a plain constant, equal to itself."""
    return is_plain(key) and key == key  # nan is not


def simply_keyed(keys: Iterable[Any]) -> bool:
    """Whether looking up a simple key among these runs no user code."""
    kinds = {id(kind): kind for kind in map(type, keys)}
    for number, kind in kinds.items():
        if number in PLAIN_KINDS:
            continue
        if kind is tuple or kind is frozenset:
            if not all(is_plain(key) for key in keys if type(key) is kind):
                return False
        elif (
            _frames.type_lookup(kind, "__hash__") not in IDENTITY_HASHES
            or _frames.type_lookup(kind, "__eq__") is not object.__eq__
        ):
            return False
    return True


def hollow_list(world: World, obj: Any, path: Path) -> Hollow | None:
    carried = bool(world.carried) and path.accessor is ARG  # over a break: perhaps it grows in a loop
    return HollowList(world, shadow(world, obj, path, [])) if carried or wanted(world, obj, path) else None


def hollow_dict(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path) or id(obj) in world.namespaces or not simply_keyed(obj):
        return None
    return HollowDict(world, shadow(world, obj, path, {}))


def hollow_default_dict(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path) or not simply_keyed(obj):
        return None
    made = HollowDefaultDict(world, shadow(world, obj, path, defaultdict()))
    made.inner.default_factory = world.enter(obj.default_factory, path.get("default_factory"))
    return made


def hollow_set(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path) or not simply_keyed(obj):
        return None
    return HollowSet(world, shadow(world, obj, path, set()))


def hollow_deque(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path):
        return None
    world.guards.add(path.get("maxlen"), EQ, obj.maxlen, world.origin())
    return HollowDeque(world, shadow(world, obj, path, deque(maxlen=obj.maxlen)))


def wanted(world: World, obj: Any, path: Path) -> bool:
    return len(obj) > LARGE or path in world.light_paths


def hollow_iterator(world: World, obj: Any, path: Path) -> Hollow | None:
    """Not over what the program reaches by another way too: it would see changes."""
    try:
        below = _entry.beneath(obj)
        _entry.upcoming(0, obj)
    except Exception:  # of an unknown kind, or its dict has changed
        return None
    known = world.beneath.get(id(obj))
    if known is not None:
        known[2].fill()
    if any(map(world.is_reachable, below)):
        return None
    return HollowIterator(world, shadow(world, obj, path, SAMPLES[type(obj)]()))


# Empty iterators of each kind.
MAKERS: tuple[Callable[[], Any], ...] = (
    lambda: iter([]), lambda: iter(()), lambda: iter(""), lambda: iter("\u0100"), lambda: iter(b""),
    lambda: iter(bytearray()), lambda: iter(range(0)), lambda: reversed([]), lambda: reversed(()),
    lambda: iter({}), lambda: iter({}.values()), lambda: iter({}.items()), lambda: iter(set()),
    lambda: enumerate(()), zip, lambda: itertools.cycle(()), lambda: itertools.repeat(None, 0), itertools.chain,
    lambda: itertools.islice((), 0),
)  # fmt: skip
SAMPLES: dict[type, Callable[[], Any]] = {type(make()): make for make in MAKERS}

ROWS: dict[int, Callable[[World, Any, Path], Hollow | None]] = {
    id(list): hollow_list,
    id(dict): hollow_dict,
    id(defaultdict): hollow_default_dict,
    id(set): hollow_set,
    id(deque): hollow_deque,
    **{id(kind): hollow_iterator for kind in SAMPLES},
}
