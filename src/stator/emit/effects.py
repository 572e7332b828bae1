"""Net effects: the statements that bring an outside object from its old contents to its new ones.

Old and new contents are compared by identity (equal exact scalars count as identical), never by user code. Subclasses
of builtin containers are changed through the builtin type's own methods.
"""

from __future__ import annotations

import decimal
import itertools
import random
import struct
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stator import _entry, _frames
from stator.guards.constant import is_plain
from stator.world.generators import has_moved
from stator.world.iterators import SEQUENCE_ITERATORS

from . import hashes, raw
from .emitter import Emitter
from .generators import state_of
from .makers import replica, stir_deque, stir_ordered
from .plan import CannotRebuild, Const, Source, Splice, dict_of, listing
from .raw import ABSENT
from .recipes_instances import bound, namespace_of

Pairs = Sequence[tuple[Any, Any]]


# Comparing.

_TOKENS: dict[int, Callable[[Any], object]] = {
    id(int): lambda obj: obj,
    id(bool): lambda obj: obj,
    id(str): lambda obj: obj,
    id(bytes): lambda obj: obj,
    id(type(None)): lambda obj: obj,
    id(float): lambda obj: struct.pack("d", obj),
    id(complex): lambda obj: struct.pack("dd", obj.real, obj.imag),
}


def token(obj: object) -> tuple[object, object]:
    """Equal tokens stand for objects nobody can tell apart."""
    by_value = _TOKENS.get(id(type(obj)))
    return (id(type(obj)), by_value(obj)) if by_value is not None else (None, id(obj))


def same(left: object, right: object) -> bool:
    return left is right or token(left) == token(right)


def _common_prefix(old: Sequence[object], new: Sequence[object]) -> int:
    length = 0
    for left, right in zip(old, new):  # noqa: B905 - the shorter one ends it
        if not same(left, right):
            break
        length += 1
    return length


# Writing.

_OPERATORS = {"__setitem__": "{0}[{1}] = {2}", "__delitem__": "del {0}[{1}]"}


class Target:
    """An outside container of a builtin type or of a subclass, and how to call the builtin type's methods on it."""

    def __init__(self, emitter: Emitter, expression: object, cls: type, base: Any) -> None:
        self.emitter = emitter
        self.expression = expression
        self.base = base
        self.is_exact = cls is base
        self.hashes: dict[int, int] = {}  # of keys that must not be asked, by address
        self.stirred = False  # of an ordered dict or deque: keys or elements have come or gone
        self.put_in: Sequence[Any] = ()  # keys of a dict that were put in, perhaps after they were taken out

    def do(self, method: str, *arguments: object) -> None:
        if not self.is_exact:
            self.emitter.statement(
                "{0}({1})", Const(getattr(self.base, method)), listing([self.expression, *arguments])
            )
        elif method in _OPERATORS:
            self.emitter.statement(_OPERATORS[method], self.expression, *arguments)
        else:
            self.emitter.statement(f"{{0}}.{method}({{1}})", self.expression, listing(arguments))

    def put(self, keys: Sequence[Any], values: Iterable[object] = ()) -> None:
        """Adds keys, some of which must not be asked for their hash."""
        self.emitter.statement("{0}", Splice(*hashes.put(self.expression, self.hashes, keys, values)))

    def span(self, start: int, stop: int | None) -> object:
        """A subscript for the items from start to stop."""
        end = "" if stop is None else str(stop)
        return Source(f"{start or ''}:{end}") if self.is_exact else slice(start, stop)

    def set(self, attribute: str, value: object) -> None:
        descriptor = raw.lookup(self.base, attribute)
        self.emitter.statement("{0}({1}, {2})", Const(descriptor.__set__), self.expression, value)


# One function per type.


def _change_list(target: Target, old: Sequence[Any], new: Sequence[Any]) -> None:
    start = _common_prefix(old, new)
    if start == len(old):
        _extend(target, new[start:])
        return
    end = _common_prefix(old[: start - 1 if start else None : -1], new[: start - 1 if start else None : -1])
    stop, inserted = len(old) - end, list(new[start : len(new) - end])
    if not inserted:
        single = stop - start == 1
        target.do("__delitem__", start if single else target.span(start, None if end == 0 else stop))
    elif len(inserted) == stop - start == 1:
        target.do("__setitem__", start, inserted[0])
    else:
        target.do("__setitem__", target.span(start, None if end == 0 else stop), tuple(inserted))


def _extend(target: Target, items: Sequence[Any]) -> None:
    if len(items) == 1:
        target.do("append", items[0])
    elif items:
        target.do("extend", tuple(items))


def _change_deque(target: Target, old: Sequence[Any], new: Sequence[Any]) -> None:
    if not target.stirred and len(old) == len(new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            if not same(before, now):
                target.do("__setitem__", index, now)
    elif len(old) == len(new) == _common_prefix(old, new):
        target.emitter.statement("{0}({1})", Const(stir_deque), target.expression)
    elif _common_prefix(old, new) == len(old):
        _extend(target, new[len(old) :])
    elif len(new) > len(old) and _common_prefix(old[::-1], new[::-1]) == len(old):
        added = new[: len(new) - len(old)][::-1]
        if len(added) == 1:
            target.do("appendleft", added[0])
        else:
            target.do("extendleft", tuple(added))
    else:
        target.do("clear")
        _extend(target, new)


def _change_bytearray(target: Target, old: bytes, new: bytes) -> None:
    start = _common_prefix(old, new)
    if start == len(old):
        if new[start:]:
            target.do("extend", new[start:])
    else:
        target.do("__setitem__", target.span(start, None), new[start:])


def _set_steps(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[str, str, list[Any]]]:
    """(method for one, method for many, elements) that bring a set from old to new contents."""
    before, after = {token(item) for item in old}, {token(item) for item in new}
    removed = [item for item in old if token(item) not in after]
    added = [item for item in new if token(item) not in before]
    steps = [("discard", "difference_update", removed), ("add", "update", added)]
    return [step for step in steps if step[2]]


def _change_set(target: Target, old: Sequence[Any], new: Sequence[Any]) -> None:
    for one, many, items in _set_steps(old, new):
        if any(id(item) in target.hashes for item in items):
            target.put(items)
        elif len(items) == 1:
            target.do(one, items[0])
        else:
            target.do(many, tuple(items))


def table(emitter: Emitter, target: object, old: Sequence[Any], outside: set[Any], new: set[Any]) -> bool:
    """Make the target, which is the set `outside` and held `old`, what `new` is, also in its order from now on.

    That depends on where elements lie in its table, and on those that were there; the answer is whether a guard on
    `_entry.set_layout` is needed.
    """
    now = [*set.__iter__(new)]
    steps = _set_steps(old, now)
    changed = Target(emitter, target, type(new), set)
    changed.hashes = hashes.known(new, emitter)
    if steps and any(map(hashes.says, old)):  # looking for one would ask it
        return _exchange(changed, new, now)
    layout = _entry.set_layout(new)
    before = _entry.set_layout(outside)
    moved = len(layout) != len(before) or layout[FINGER:] != before[FINGER:]  # resized, or `pop` was called
    if not (steps or moved) or not all(map(is_plain, (*old, *now))):
        _change_set(changed, old, now)
        return False
    trial = replica(outside)
    for one, many, items in steps:
        getattr(trial, one)(items[0]) if len(items) == 1 else getattr(trial, many)(items)
    if _entry.set_layout(trial) == layout and all(map(same, trial, now)):
        _change_set(changed, old, now)
        return sum(len(items) for *_, items in steps) > 1
    emitter.statement("{0}({1}, {2})", Const(_entry.set_like), target, Const(replica(new)))
    return True


def _exchange(target: Target, new: set[Any], now: Sequence[Any]) -> bool:
    """Give the set all its elements anew; the answer is that of `table`."""
    if fixed := len(target.hashes) > 0 and all(map(hashes.is_fixed, now)):
        target.emitter.statement("{0}", Splice(*hashes.like(target.expression, new)))
    else:
        target.do("clear")
        target.put(now)
    return fixed


FINGER = -8  # the end of a layout: where `pop` begins


def _change_dict(target: Target, old: Pairs, new: Pairs) -> None:
    if not target.put_in and len(old) == len(new) and all(map(_is_pair, old, new)):
        return
    before = {token(key): value for key, value in old}
    values = {token(key): value for key, value in new}
    put = {token(key) for key in target.put_in}
    kept = [key for key, _ in old if token(key) in values and token(key) not in put]
    added = [key for key, _ in new if token(key) not in before or token(key) in put]
    in_place = _common_prefix([*kept, *added], [key for key, _ in new]) == len(new)
    replaced = any(not same(values.get(token(key), ABSENT), value) for key, value in old)
    unchanged = len(new) == len(old) and not replaced and not put
    if not in_place or (not unchanged and any(hashes.says(key) for key, _ in old)):  # no key of the program is asked
        target.do("clear")
        _assign(target, new)
        return
    stay = {token(key) for key in kept}
    for key, _ in old:
        if token(key) not in stay:
            target.do("__delitem__", key)
            del before[token(key)]
    changes = [(key, value) for key, value in new if not same(before.get(token(key), ABSENT), value)]
    if len(before) == 0 and len(old) > 0:  # an update of an empty dict would begin a new table
        for change in changes:
            _assign(target, [change])
    else:
        _assign(target, changes)


def _is_pair(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    return one[0] is other[0] and one[1] is other[1]


def _change_ordered(target: Target, old: Pairs, new: Pairs) -> None:
    _change_dict(target, old, new)
    if target.stirred and len(old) == len(new) == _common_prefix([key for key, _ in old], [key for key, _ in new]):
        target.emitter.statement("{0}({1})", Const(stir_ordered), target.expression)


def _assign(target: Target, items: Pairs) -> None:
    if any(id(key) in target.hashes for key, _ in items):
        target.put([key for key, _ in items], [value for _, value in items])
    elif len(items) == 1:
        target.do("__setitem__", *items[0])
    elif target.base is OrderedDict and not target.is_exact:
        # OrderedDict.update calls the subclass's __setitem__.
        for key, value in items:
            target.do("__setitem__", key, value)
    elif items:
        target.do("update", dict_of(items))


def _change_defaultdict(target: Target, old: tuple[Any, Pairs], new: tuple[Any, Pairs]) -> None:
    if not same(old[0], new[0]):
        target.set("default_factory", new[0])
    _change_dict(target, old[1], new[1])


def _change_random(target: Target, old: Any, new: Any) -> None:
    if old != new:
        target.do("setstate", new)


def _change_context(target: Target, old: Sequence[Any], new: Sequence[Any]) -> None:
    for name, before, now in zip(_CONTEXT_FIELDS, old, new, strict=False):
        if before != now:
            target.emitter.statement(f"{{0}}.{name} = {{1}}", target.expression, now)
    for name, before, now in zip(("flags", "traps"), old[-2:], new[-2:], strict=True):
        for (signal, value), other in zip(now, before, strict=True):
            if other != (signal, value):
                target.emitter.statement(f"{{0}}.{name}[{{1}}] = {{2}}", target.expression, Const(signal), value)


def _change_position(target: Target, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
    """An iterator over a builtin sequence; without a position it is at its end."""
    if len(new) == 3:
        if new[2] != old[2]:
            target.emitter.statement("{0}.__setstate__({1})", target.expression, new[2])
    elif len(old) == 3:
        target.emitter.statement("{0}({1}, 0)", Const(deque), target.expression)


def _change_count(target: Target, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
    (start, *step), (end, *_) = old[1], new[1]
    if same(start, end):
        return
    if type(start) is not int or type(end) is not int or type(step[0] if step else 1) is not int:
        raise CannotRebuild(end, "a count by other numbers than int cannot be advanced")
    steps = (end - start) // (step[0] if step else 1)
    target.emitter.statement("{0}({1}({2}, {3}), 0)", Const(deque), Const(itertools.islice), target.expression, steps)


def _change_generator(target: Target, old: Any, new: Any) -> None:
    """A suspended frame that is at another place, or has other values."""
    if not has_moved(old, new):
        return
    if new is None:
        target.emitter.statement("{0}({1})", Const(_frames.end_generator), target.expression)
        return
    template = "{0}({1}, {2}, {3}, {4}, {5}, {6})"
    target.emitter.statement(template, Const(_frames.put_generator), target.expression, *state_of(new, outside=True))
    for name, before, now in zip(("__name__", "__qualname__"), old[5:], new[5:], strict=True):
        if before != now:
            target.emitter.statement(f"{{0}}.{name} = {{1}}", target.expression, now)


# The table.

_CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _read_context(obj: Any) -> tuple[Any, ...]:
    return (*(getattr(obj, name) for name in _CONTEXT_FIELDS), tuple(obj.flags.items()), tuple(obj.traps.items()))


def _read_defaultdict(obj: Any) -> tuple[Any, Pairs]:
    return defaultdict.__dict__["default_factory"].__get__(obj), tuple(dict.items(obj))


_C_RANDOM: Any = random.Random.__base__

# builtin type -> (how to read its contents, how to write the difference); what reading makes anew is a tuple
_ROWS: tuple[tuple[Any, Any, Any], ...] = (
    (list, lambda obj: [*list.__iter__(obj)], _change_list),
    (dict, lambda obj: [*dict.items(obj)], _change_dict),
    (OrderedDict, raw.ordered_items, _change_ordered),
    (defaultdict, _read_defaultdict, _change_defaultdict),
    (set, lambda obj: [*set.__iter__(obj)], _change_set),
    (deque, lambda obj: [*deque.__iter__(obj)], _change_deque),
    (bytearray, lambda obj: bytes(memoryview(obj)), _change_bytearray),
    (_C_RANDOM, _C_RANDOM.getstate, _change_random),
    (decimal.Context, _read_context, _change_context),
    (itertools.count, itertools.count.__reduce__, _change_count),
    *((kind, kind.__reduce__, _change_position) for kind in SEQUENCE_ITERATORS),
    *((kind, _frames.generator_state, _change_generator) for kind in (types.GeneratorType, types.CoroutineType)),
)
ROWS: dict[int, tuple[Any, Callable[[Any], Any], Callable[[Target, Any, Any], None]]] = {
    id(row[0]): row for row in _ROWS
}


def snapshot(obj: object) -> Any:
    """The contents of a container at this moment, for a later `contents`."""
    return ROWS[id(raw.solid_base(type(obj), ROWS))][1](obj)


def contents(emitter: Emitter, target: object, old: Any, new: object, stirred: bool = False) -> None:
    """Make target, whose contents were the snapshot `old`, hold what the container `new` of the same type holds now.

    Iterators over it notice what came and went again: `stirred` says so of ordered dicts and deques.
    """
    solid = raw.solid_base(type(new), ROWS)
    if id(solid) not in ROWS:
        raise CannotRebuild(new, "there is no way to write its contents back")
    base, read, change = ROWS[id(solid)]
    changed = Target(emitter, target, type(new), base)
    if issubclass(base, (dict, set)):
        changed.hashes = hashes.known(new, emitter)
    if base is dict or base is defaultdict:
        changed.put_in = _entry.keys_from(new, len(old if base is dict else old[1]))
    changed.stirred = stirred
    change(changed, old, read(new))


def items(
    emitter: Emitter, target: object, cls: type, deleted: Iterable[object], assigned: Mapping[Any, Any] | Pairs
) -> None:
    """Delete and set these keys of a dict (or subclass), for callers that know the difference already."""
    changed = Target(emitter, target, cls, ROWS[id(raw.solid_base(cls, ROWS))][0])
    for key in deleted:
        changed.do("__delitem__", key)
    _assign(changed, [*assigned.items()] if isinstance(assigned, Mapping) else assigned)


def operations(emitter: Emitter, target: object, cls: type, done: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    """Call methods of a builtin container, for callers that know what was done to it but not what it holds."""
    changed = Target(emitter, target, cls, cls)
    for method, arguments in done:
        changed.do(method, *arguments)


def advance(emitter: Emitter, target: object, taken: int, ended: int) -> None:
    """Take elements from an iterator, and find it at its end so many times."""
    if taken == 1:
        emitter.statement("{0}({1})", Const(next), target)
    elif taken:
        emitter.statement("{0}({1}({2}, {3}), 0)", Const(deque), Const(itertools.islice), target, taken)
    for _ in range(ended):
        emitter.statement("{0}({1}, None)", Const(next), target)


# Attributes, cells and globals.


def attribute(emitter: Emitter, target: object, name: str, value: object = ABSENT, cls: type | None = None) -> None:
    """Set an attribute where it is stored (slot, C field, class, or `__dict__`); without a value, delete it."""
    cls = type(target) if cls is None else cls
    if raw.derives(cls, type):
        _through(emitter, Const(type.__setattr__), Const(type.__delattr__), target, name, value)
        return
    descriptor = raw.lookup(cls, name)
    if type(descriptor) in raw.DATA_DESCRIPTORS:
        if raw.stores_through(cls, name, descriptor):
            _plainly(emitter, target, name, value)
        elif value is ABSENT:
            emitter.statement("{0}({1})", bound(descriptor, "__delete__"), target)
        else:
            emitter.statement("{0}({1}, {2})", bound(descriptor, "__set__"), target, value)
    elif raw.stores_plainly(cls, name):
        _plainly(emitter, target, name, value)
    else:
        _into_namespace(emitter, target, cls, name, value)


def _plainly(emitter: Emitter, target: object, name: str, value: object) -> None:
    if value is ABSENT:
        emitter.statement(f"del {{0}}.{name}", target)
    else:
        emitter.statement(f"{{0}}.{name} = {{1}}", target, value)


def _through(emitter: Emitter, setter: Const, deleter: Const, target: object, name: str, value: object) -> None:
    if value is ABSENT:
        emitter.statement("{0}({1}, {2})", deleter, target, name)
    else:
        emitter.statement("{0}({1}, {2}, {3})", setter, target, name, value)


def _into_namespace(emitter: Emitter, target: object, cls: type, name: str, value: object) -> None:
    descriptor = raw.dict_descriptor(cls)
    if descriptor is None:
        raise CannotRebuild(target, f"it has no place for an attribute {name!r}")
    namespace = Splice(*namespace_of(cls, descriptor, target))
    if value is ABSENT:
        emitter.statement("del {0}[{1}]", namespace, name)
    else:
        emitter.statement("{0}[{1}] = {2}", namespace, name, value)


def cell(emitter: Emitter, target: types.CellType | Source, value: object = ABSENT) -> None:
    """Set what a cell holds; without a value, empty it."""
    _plainly(emitter, target, "cell_contents", value)


def global_name(emitter: Emitter, namespace: object, name: str, value: object = ABSENT) -> None:
    """Set a global in this globals dict; without a value, delete it."""
    if value is ABSENT:
        emitter.statement("del {0}[{1}]", namespace, name)
    else:
        emitter.statement("{0}[{1}] = {2}", namespace, name, value)
