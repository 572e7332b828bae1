"""Hollow dicts and sets."""

from __future__ import annotations

import itertools
import linecache
import operator
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Size

from stator import _frames
from stator.errors import Again
from stator.frame import Frame, native
from stator.guards.check import HAS_ELEMENT, KEYS, NO_ELEMENT, NO_KEY, PRESENT
from stator.guards.constant import is_value
from stator.world.containers import fill_mapping, fill_set
from stator.world.hollow import ABSENT, DECLINED, ROWS, Hollow, Operation, wanted
from stator.world.keys import IDENTITY_HASHES
from stator.world.shadows import copy_attributes, shadow

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.record import Record
    from stator.world.world import World


FEW = 8


class Keyed(Hollow):
    """Dicts and sets: what is known of keys after the writes so far, and the writes."""

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.now: dict[Any, Any] = {}  # key -> value, or ABSENT
        self.done: list[Operation] = []
        self.removed = False
        self.unseen: list[Operation] = []  # writes under keys that vary, and all that came after them

    def write(self, method: str, key: Any, *value: Any) -> Any:
        """Under which key need not be known before somebody asks."""
        if self.unseen or is_varying(self.world, key):
            self.unseen.append((method, (key, *value)))
            return None
        return self.note(method, key, *value) if is_simple(key) else DECLINED

    def plain(self, key: Any) -> Any:
        """A key that is asked for; those of writes have to be known, too."""
        unseen, self.unseen = self.unseen, []
        for method, (written, *value) in unseen:
            self.note(method, constant_of(self.world, written), *value)
        return constant_of(self.world, key)

    def asked(self, key: Any) -> Any:
        """The same; CPython looks up numbers and texts that vary among data, as there is another one each time."""
        self.leave(key)
        return self.plain(key)

    def leave(self, *keys: Any) -> None:
        """The break, if one of these keys varies and there is data under them."""
        if any(is_varying(self.world, key) for key in keys) and self.world.may_leave(self.samples()):
            name = f"{self.path.describe(self.world.guards.names)}[…]"
            raise self.world.refuse("varying-key", container=name)

    def samples(self) -> Iterable[Any]:
        """Some of the values that lie under keys."""
        return ()

    def written(self, key: Any) -> Any:
        """What the last write has put under a key that varies, if it is this one; else ABSENT."""
        if not self.unseen or not is_varying(self.world, key):
            return ABSENT
        method, (last, *value) = self.unseen[-1]
        return value[0] if method == "__setitem__" and is_same(last, key) else ABSENT

    def had(self, key: Any) -> bool:
        """Whether the outside container has the key, which gets guarded."""
        raise NotImplementedError

    def has(self, key: Any) -> bool:
        known = self.now.get(key, self)
        return self.had(key) if known is self else known is not ABSENT

    def contains(self, f: Frame, key: Any) -> Any:
        if self.written(key) is not ABSENT:
            return True
        key = self.asked(key)
        return self.has(key) if is_simple(key) else DECLINED

    def truth(self) -> Any:
        if self.unseen or any(value is not ABSENT for value in self.now.values()):
            return True
        return DECLINED if self.now else self.is_some(len(self.obj))

    def length(self, f: Frame) -> Any:
        self.leave(*(key for _, (key, *_) in self.unseen))
        self.plain(None)
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
    base: type = dict  # of which the real one is
    methods = frozenset({"get", "setdefault", "pop", "update"}) | LOOPED

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record)
        self.gone_over = False

    def lasting_keys(self) -> list[Any] | None:
        """All keys, guarded, for a loop over them; None if they are not those of the outside dict or not simple."""
        self.plain(None)
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

    def write(self, method: str, key: Any, *value: Any) -> Any:
        if self.gone_over and is_varying(self.world, key):
            raise Again(self.path)
        return super().write(method, key, *value)

    def samples(self) -> Iterable[Any]:
        return itertools.islice(dict.values(self.obj), FEW)

    def item(self, f: Frame, key: Any) -> Any:
        if (value := self.written(key)) is not ABSENT:
            return value
        key = self.asked(key)
        if not is_simple(key):
            return DECLINED
        value = self.read(key)
        return self.missing(f, key) if value is ABSENT else value

    def missing(self, f: Frame, key: Any) -> Any:
        """What `d[key]` gives without such a key."""
        return native(f, operator.getitem, {}, key)

    def put(self, f: Frame, key: Any, value: Any) -> Any:
        return self.write("__setitem__", key, value)

    def drop(self, f: Frame, key: Any) -> Any:
        key = self.asked(key)
        if not is_simple(key):
            return DECLINED
        if not self.has(key):
            return native(f, operator.delitem, {}, key)
        return self.erase("__delitem__", key)

    def _get(self, f: Frame, key: Any, default: Any = None) -> Any:
        if (value := self.written(key)) is not ABSENT:
            return value
        key = self.asked(key)
        if not is_simple(key):
            return DECLINED
        value = self.read(key)
        return default if value is ABSENT else value

    def _setdefault(self, f: Frame, key: Any, default: Any = None) -> Any:
        key = self.asked(key)
        value = self._get(f, key, ABSENT)
        if value is ABSENT:
            self.note("__setitem__", key, default)
            return default
        return value

    def _update(self, f: Frame, other: Any) -> Any:
        if type(other) is not dict or not all(is_simple(key) or is_varying(self.world, key) for key in other):
            return DECLINED
        for key, value in other.items():
            self.write("__setitem__", key, value)
        return None

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        if name in LOOPED:
            return DECLINED
        return self.pop(f, args) if name == "pop" else super().call(f, name, args)

    def pop(self, f: Frame, args: list[Any]) -> Any:
        if not 1 <= len(args) <= 2:
            return DECLINED
        args = [self.asked(args[0]), *args[1:]]
        if not is_simple(args[0]):
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
        done = self.done if self.removed else [("__setitem__", pair) for pair in self.now.items()]
        return [*done, *self.unseen]

    def fill(self) -> None:
        self.plain(None)
        fill_mapping(self.world, self.record)
        self.apply(self.base)


class HollowOrderedDict(HollowDict):
    """Its order is not that of the table: what goes over it fills it."""

    base = OrderedDict
    methods = frozenset({"get", "setdefault", "pop", "update"})

    def lasting_keys(self) -> None:
        return None


class HollowCounter(HollowDict):
    """There is none of what is missing; its other methods are written in Python."""

    methods = frozenset({"get", "setdefault", "pop"}) | LOOPED

    def missing(self, f: Frame, key: Any) -> Any:
        return 0

    def drop(self, f: Frame, key: Any) -> Any:
        key = self.plain(key)
        return None if is_simple(key) and not self.has(key) else super().drop(f, key)


class SourceLines(HollowDict):
    """`linecache.cache`: the sources of generated code, those of stator's own among them."""

    def watched(self) -> Any:
        """The refusal to look at all that is in it, and to tell how much."""
        return self.world.refuse("interpreter-watched", "all of linecache.cache", function="linecache.cache")

    def lasting_keys(self) -> list[Any] | None:
        raise self.watched()

    def count(self) -> Any:
        raise self.watched()

    def truth(self) -> Any:
        return True if self.unseen else DECLINED

    def fill(self) -> None:
        raise self.watched()


class HollowDefaultDict(HollowDict):
    """Missing items are made by the factory, as the program would."""

    def missing(self, f: Frame, key: Any) -> Any:
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
        return self.write("add", key)

    def _discard(self, f: Frame, key: Any) -> Any:
        key = self.plain(key)
        return self.erase("discard", key) if is_simple(key) else DECLINED

    def _remove(self, f: Frame, key: Any) -> Any:
        key = self.plain(key)
        if not is_simple(key):
            return DECLINED
        return self.erase("remove", key) if self.has(key) else native(f, set.remove, set(), key)

    def operations(self) -> list[Operation]:
        return [*self.done, *self.unseen]

    def fill(self) -> None:
        self.plain(None)
        fill_set(self.world, self.record)
        self.apply(set)


COMPOSED = frozenset({tuple, Size})  # keys with parts that may vary
PLAIN_KINDS = {id(kind) for kind in (str, int, float, bool, bytes, complex, type(None))}


def is_varying(world: World, key: Any) -> bool:
    """Whether a key is a stand-in for a number or text, or has some in it."""
    if type(key) in COMPOSED:
        return any(is_varying(world, part) for part in key)
    return type(key) in world.varying_types or type(key) in world.texts


def is_same(a: Any, b: Any) -> bool:
    """Whether two keys that vary are equal in any case."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in COMPOSED:
        return len(a) == len(b) and all(map(is_same, a, b))
    if hasattr(a, "pieces"):
        return is_same(a.pieces, b.pieces)
    return bool(a.number == b.number) if hasattr(a, "number") else is_value(a) and bool(a == b)


def constant_of(world: World, key: Any) -> Any:
    """The key itself, a constant if it varied."""
    if not is_varying(world, key):
        return key
    return type(key)([constant_of(world, part) for part in key]) if type(key) in COMPOSED else key.decay()


def is_simple(key: Any) -> bool:
    """Whether a guard can look the key up: a plain constant, equal to itself."""
    return is_value(key) and bool(key == key)  # nan is not


def simply_keyed(keys: Iterable[Any]) -> bool:
    """Whether looking up a simple key among these runs no user code."""
    kinds = {id(kind): kind for kind in map(type, keys)}
    for number, kind in kinds.items():
        if number in PLAIN_KINDS:
            continue
        if kind in COMPOSED or kind is frozenset:
            if not all(is_value(key) for key in keys if type(key) is kind):
                return False
        elif (
            _frames.type_lookup(kind, "__hash__") not in IDENTITY_HASHES
            or _frames.type_lookup(kind, "__eq__") is not object.__eq__
        ):
            return False
    return True


def hollow_dict(world: World, obj: Any, path: Path) -> Hollow | None:
    if obj is linecache.cache:
        return SourceLines(world, shadow(world, obj, path, {}))
    if not wanted(world, obj, path) or id(obj) in world.namespaces or not simply_keyed(obj):
        return None
    return HollowDict(world, shadow(world, obj, path, {}))


def hollow_ordered_dict(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path) or id(obj) in world.namespaces or not simply_keyed(obj):
        return None
    made = HollowOrderedDict(world, shadow(world, obj, path, OrderedDict()))
    copy_attributes(world, obj, path, made.inner)
    return made


def hollow_counter(world: World, obj: Any, path: Path) -> Hollow | None:
    if not wanted(world, obj, path) or not simply_keyed(obj):
        return None
    made = HollowCounter(world, shadow(world, obj, path, Counter()))
    copy_attributes(world, obj, path, made.inner)
    return made


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


ROWS.update(
    {
        id(dict): hollow_dict,
        id(defaultdict): hollow_default_dict,
        id(OrderedDict): hollow_ordered_dict,
        id(Counter): hollow_counter,
        id(set): hollow_set,
    }
)
