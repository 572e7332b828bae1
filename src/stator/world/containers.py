"""Lists, dicts, sets and their like from outside, with all that is in them."""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator import _entry
from stator.guards.check import EQ, KEYS, LEN, SAME, TYPE_IS
from stator.guards.constant import is_plain
from stator.world.constants import CONSTANT_TYPES, constant
from stator.world.keys import is_c_hashed, is_key, is_lasting, same_place
from stator.world.record import Record
from stator.world.shadows import base_of, copy_attributes, shadow

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


def enter_frozenset(world: World, obj: Any, path: Path) -> Any:
    if type(obj) is not frozenset:
        world.type_info(type(obj))
        items = enter_elements(world, obj, path)
        if not all(map(operator.is_, items, list(frozenset.__iter__(obj)))):
            raise world.refuse("outside-type", type=type(obj).__name__)
        world.register(obj, path)
        return obj
    if all(type(item) in CONSTANT_TYPES and item == item for item in obj):
        return constant(world, obj, path)
    items = enter_elements(world, obj, path)
    if all(map(operator.is_, items, obj)):
        world.register(obj, path)
        return obj
    inner = frozenset(items)
    if all(map(same_place, items, obj)):
        _entry.set_like(inner, obj, items)
    return world.register_shadow(obj, path, inner)


def enter_elements(world: World, obj: Any, path: Path) -> list[Any]:
    """Elements of a set in iteration order."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    outer = list(base_of(type(obj), (set, frozenset)).__iter__(obj))
    world.guards.add(path, LEN, len(outer), world.origin())
    items = [enter_element(world, item, path.iter_at(i)) for i, item in enumerate(outer)]
    if not all(is_key(item) or is_c_hashed(item) for item in outer):  # where each lies is what code of the user said
        if not all(map(same_place, items, outer)):
            raise world.refuse("outside-type", "a set of objects with a hash of their own", type=type(obj).__name__)
        world.guards.add(path.part("hashes", _entry.hash_numbers), EQ, _entry.hash_numbers(obj), world.origin())
    return items


def enter_element(world: World, item: Any, path: Path) -> Any:
    """Where an element lies depends on its value: numbers and texts are constants, also if they vary."""
    return constant(world, item, path) if is_plain(item) and item == item else world.enter(item, path)


def enter_list(world: World, obj: Any, path: Path) -> Any:
    inner = [] if type(obj) is list else list.__new__(type(obj))
    fill_list(world, shadow(world, obj, path, inner))
    copy_attributes(world, obj, path, inner)
    return inner


def fill_list(world: World, record: Record) -> None:
    path, inner = record.path, record.inner
    world.guards.add(path, LEN, list.__len__(record.obj), world.origin())
    for i, item in enumerate(list.__iter__(record.obj)):
        list.append(inner, world.enter(item, path.item(i)))
    record.before = list(list.__iter__(inner))


def enter_dict(world: World, obj: Any, path: Path) -> Any:
    cls = type(obj)
    namespace = world.namespaces.get(id(obj))
    if namespace is not None:
        if path is not namespace.dict_path():
            world.guards.add(path, SAME, namespace.dict_path(), world.origin())
        return namespace.expose()
    inner: Any = {} if cls is dict else base_of(cls, DICT_BASES).__new__(cls)
    record = shadow(world, obj, path, inner)
    fill_mapping(world, record)
    copy_attributes(world, obj, path, inner)
    return inner


def fill_mapping(world: World, record: Record) -> None:
    obj, path, inner = record.obj, record.path, record.inner
    cls = type(obj)
    if issubclass(type(obj), defaultdict):
        factory = defaultdict.__dict__["default_factory"].__get__(obj)
        inner.default_factory = world.enter(factory, path.get("default_factory"))
    fill_dict(world, obj, path, inner, base_of(cls, DICT_BASES).__setitem__)
    items = list(dict.items(inner)) if cls is dict else list(base_of(cls, DICT_BASES).items(inner))
    record.before = (inner.default_factory, items) if issubclass(type(obj), defaultdict) else items
    if issubclass(cls, OrderedDict):
        record.probe = OrderedDict.__iter__(inner)


DICT_BASES = (OrderedDict, defaultdict, dict)


def fill_dict(world: World, obj: Any, path: Path, inner: Any, store: Any) -> None:
    """Items of an outside dict in order; constant keys are guarded together, others one by one."""
    keys = [key for key, _ in _entry.stored_hashes(obj)]
    if all(is_key(key) and is_lasting(key) for key in keys):
        world.guards.add(path, KEYS, tuple(keys), world.origin())
        for i, key in enumerate(keys):
            if type(key) not in CONSTANT_TYPES:
                world.enter(key, path.key_at(i))
            store(inner, key, world.enter(dict.__getitem__(obj, key), path.entry(key)))
        return
    if all(is_key(key) or is_c_hashed(key) for key in keys):
        for key, value in by_position(world, obj, path):
            store(inner, key, value)
    else:
        fill_told(world, obj, path, inner)


def by_position(world: World, obj: Any, path: Path) -> Iterator[tuple[Any, Any]]:
    """Items of an outside dict with keys that are no constants: pair by pair, in order."""
    base = base_of(type(obj), DICT_BASES)
    world.guards.add(path, LEN, len(list(base.keys(obj))), world.origin())
    pairs = path.part("items()", base.items).part("list", list)
    for i, (key, value) in enumerate(list(base.items(obj))):
        pair = pairs.item(i)
        yield world.enter(key, pair.item(0)), world.enter(value, pair.item(1))


def fill_told(world: World, obj: Any, path: Path, inner: Any) -> None:
    """Items whose keys lie where code of the user said: under the hashes that the dict remembers, without asking."""
    if base_of(type(obj), DICT_BASES) is OrderedDict:  # it asks them for each item
        raise world.refuse("outside-type", "an OrderedDict of keys with a hash of their own", type=type(obj).__name__)
    stored = _entry.stored_hashes(obj)
    numbers = tuple(number for _, number in stored)
    world.guards.add(path.part("hashes", _entry.hash_numbers), EQ, numbers, world.origin())
    items = list(by_position(world, obj, path))
    for (outer, _), (key, _) in zip(stored, items, strict=True):
        if not same_place(key, outer):
            raise world.refuse("outside-type", f"dict with a key of type {type(key).__name__}", type=type(key).__name__)
    _entry.put_hashed(inner, numbers, *(tuple(part) for part in zip(*items, strict=True)))


def enter_set(world: World, obj: Any, path: Path) -> Any:
    cls = type(obj)
    inner: Any = set() if cls is set else set.__new__(cls)
    fill_set(world, shadow(world, obj, path, inner))
    copy_attributes(world, obj, path, inner)
    return inner


def fill_set(world: World, record: Record) -> None:
    items = enter_elements(world, record.obj, record.path)
    if all(map(same_place, items, set.__iter__(record.obj))):
        _entry.set_like(record.inner, record.obj, items)  # so that it has the same order, now and after changes
    else:
        set.update(record.inner, items)
    record.before = list(set.__iter__(record.inner))


def enter_deque(world: World, obj: Any, path: Path) -> Any:
    cls = type(obj)
    world.guards.add(path, TYPE_IS, cls, world.origin())
    world.guards.add(path.get("maxlen"), EQ, obj.maxlen, world.origin())
    inner = deque.__new__(cls)
    deque.__init__(inner, (), obj.maxlen)
    fill_deque(world, world.register(obj, path, inner))
    copy_attributes(world, obj, path, inner)
    return inner


def fill_deque(world: World, record: Record) -> None:
    path = record.path
    outer = list(deque.__iter__(record.obj))
    world.guards.add(path, LEN, len(outer), world.origin())
    items = [world.enter(item, path.seq(i)) for i, item in enumerate(outer)]
    deque.extend(record.inner, items)
    record.before = items
    record.probe = deque.__iter__(record.inner)


def enter_bytearray(world: World, obj: Any, path: Path) -> Any:
    if type(obj) is not bytearray:
        raise world.refuse("outside-type", type=type(obj).__name__)
    world.guards.add(path, TYPE_IS, bytearray, world.origin())
    world.guards.add(path.part("bytes", bytes), EQ, bytes(obj), world.origin())
    inner = bytearray(obj)
    world.register(obj, path, inner).before = bytes(obj)
    return inner
