"""Outside objects of C types that native code can iterate or index: imported where a row says how, else refused."""

from __future__ import annotations

import gc
import io
import itertools
import sys
import types
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.errors import unsupported
from stator.guards.check import IS, TYPE_IS
from stator.world.record import Importer

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World

# Iterators over builtin sequences: `__reduce__` shows sequence and position, `__setstate__` sets the position.
EMPTY: tuple[Any, ...] = ([], (), "", "\u0100", b"", bytearray(), range(0))
SEQUENCE_ITERATORS: tuple[type, ...] = (
    *(type(iter(empty)) for empty in EMPTY),
    type(reversed([])),
)


def enter_position(world: World, obj: Any, path: Path) -> Any:
    """An iterator over a builtin sequence: one at the same position of the sequence's shadow."""
    cls: Any = type(obj)
    if id(obj) in world.beneath:
        world.beneath[id(obj)][2].fill()
    world.guards.add(path, TYPE_IS, cls, world.origin())
    function, args, *state = world.enter(cls.__reduce__(obj), path.part("state", cls.__reduce__))
    inner = function(*args)
    if type(inner) is not cls:
        raise world.refuse("outside-iterator", f"a {cls.__name__} at its end", type=cls.__name__)
    if state:
        inner.__setstate__(state[0])
    world.register(obj, path, inner).before = cls.__reduce__(inner)  # type: ignore[call-arg]
    return inner


def enter_count(world: World, obj: Any, path: Path) -> Any:
    """itertools.count: one that stands at the same number."""
    world.guards.add(path, TYPE_IS, itertools.count, world.origin())
    reduce: Any = itertools.count.__reduce__
    function, args = world.enter(reduce(obj), path.part("state", reduce))
    inner = function(*args)
    world.register(obj, path, inner).before = reduce(inner)
    return inner


def enter_view(world: World, obj: Any, path: Path) -> Any:
    """dict.keys(), .values(), .items(): the same view of the dict's shadow."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    mapping = world.enter(gc.get_referents(obj)[0], path.part("dict", gc.get_referents).item(0))
    return world.register_shadow(obj, path, VIEWS[type(obj)](mapping))


VIEWS: dict[type, Any] = {type({}.keys()): dict.keys, type({}.values()): dict.values, type({}.items()): dict.items}
ORDERED: OrderedDict[Any, Any] = OrderedDict()
VIEWS |= {type(make(ORDERED)): make for make in (OrderedDict.keys, OrderedDict.values, OrderedDict.items)}


def enter_slice(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, TYPE_IS, slice, world.origin())
    before = [obj.start, obj.stop, obj.step]
    parts = [world.enter(part, path.get(name)) for part, name in zip(before, ("start", "stop", "step"), strict=True)]
    return world.identities.enter_parts(obj, path, before, parts, lambda made: slice(*made))


def enter_opaque(world: World, obj: Any, path: Path) -> Any:
    """Guarded by identity, unless it is another one on every call: then nothing is known about it."""
    if (path, "identity", 0) in world.varying:
        cls = type(obj)
        raise unsupported("outside-type", f"another {cls.__qualname__} on every call", type=cls.__name__)
    world.guards.add(path, IS, obj, world.origin())
    world.register(obj, path)
    return obj


ALIAS_PARTS: dict[type, tuple[str, ...]] = {
    types.GenericAlias: ("__origin__", "__args__", "__unpacked__"),
    types.UnionType: ("__args__",),
}


def enter_alias(world: World, obj: Any, path: Path) -> Any:
    """`list[int]`, `int | None`: where another one comes on every call, what it is made of is guarded instead."""
    cls = type(obj)
    if (path, "identity", 0) in world.varying:
        world.guards.add(path, TYPE_IS, cls, world.origin())
        parts = [(name, cls.__dict__[name].__get__(obj)) for name in ALIAS_PARTS[cls]]
        if all(world.enter(part, path.get(name)) is part for name, part in parts):
            world.register(obj, path)
            return obj
    return enter_opaque(world, obj, path)


def refuse_sequence(world: World, obj: Any, path: Path) -> Any:
    """Native code could read or advance it without anybody noticing."""
    cls = type(obj)
    if obj is getattr(sys, "stdout", None) or obj is getattr(sys, "stderr", None):  # a program may delete them
        return enter_opaque(world, obj, path)
    if issubclass(cls, io.IOBase):
        world.streams[id(obj)] = obj
        return enter_opaque(world, obj, path)
    break_id = "outside-iterator" if _frames.type_lookup(cls, "__next__") is not UNBOUND else "outside-type"
    raise world.refuse(break_id, f"{cls.__module__}.{cls.__qualname__} from outside", type=cls.__name__)


PROTOCOLS = ("__next__", "__iter__", "__getitem__", "__len__", "__buffer__")


def exposes_contents(cls: type) -> bool:
    """Whether a C class gives native code access to contents that may change."""
    return any(_frames.type_lookup(cls, method) is not UNBOUND for method in PROTOCOLS)


# Contents that never change, or whose reading is decided elsewhere.
UNCHANGING = frozenset(
    {"re.Match", "types.GenericAlias", "types.UnionType", "builtins.range", "builtins.str", "builtins.bytes",
     "builtins.type", "numpy.generic", "numpy.dtype"}
)  # fmt: skip


def foreign(cls: type) -> bool:
    """Whether a class, or a class made in C that it derives from, exposes contents of its own."""
    bases = [base for base in type.__dict__["__mro__"].__get__(cls) if not _frames.is_python_class(base)]
    names = {f"{base.__module__}.{base.__name__}" for base in bases}
    if names & UNCHANGING or any(name.startswith("torch") for name in names):
        return False
    return any(map(exposes_contents, bases))


ITERATOR_ROWS: dict[type, Importer] = {
    **dict.fromkeys(SEQUENCE_ITERATORS, enter_position),
    **dict.fromkeys(VIEWS, enter_view),
    itertools.count: enter_count,
    slice: enter_slice,
    **dict.fromkeys(ALIAS_PARTS, enter_alias),
}
