"""Dicts that a loop with a break goes over: where keys lie in their tables decides which ones come next.

A replay of what has changed leaves the right keys in the right order, but perhaps at other places. So keys come and go
in CPython there: each such instruction is a break.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from stator.world.keys import is_c_hashed

if TYPE_CHECKING:
    from stator.world.world import World

VIEWS: tuple[Any, ...] = ({}.keys(), {}.values(), {}.items())
ITERATORS = {enumerate, zip, map, filter, *(type(way(view)) for view in VIEWS for way in (iter, reversed))}
MOVING = frozenset({"clear", "pop", "popitem", "setdefault", "update", "__ior__", "__delitem__", "__setitem__"})


def gone_over(carried: Iterable[Any]) -> frozenset[int]:
    """Addresses of the dicts that iterators among these values go over."""
    pending = [value for value in carried if type(value) in ITERATORS]
    found = set()
    for value in pending:  # which grows meanwhile
        for below in gc.get_referents(value):
            if type(below) in ITERATORS or type(below) is tuple:  # `zip` has its iterators in a tuple
                pending.append(below)
            elif issubclass(type(below), dict):
                found.add(id(below))
    return frozenset(found)


def real(world: World, container: Any) -> Any:
    """Such a dict itself, if this stands for one."""
    record = world.records.get(id(container))
    return record.obj if record is not None and id(record.obj) in world.gone_over else None


def before_key(world: World, container: Any, key: Any, deletes: bool) -> None:
    """A break before a key comes or goes; another value for a key is no matter."""
    outside = real(world, container)
    if outside is not None and (deletes or not (is_c_hashed(key) and dict.__contains__(outside, key))):
        refuse(world)


def before_call(world: World, function: Any) -> None:
    """The same of methods that move keys."""
    moves = type(function) is BuiltinFunctionType and function.__name__ in MOVING
    if moves and real(world, function.__self__) is not None:
        refuse(world)


def refuse(world: World) -> None:
    raise world.refuse("outside-write", "a dict that a loop goes over gets or loses a key", target="a dict in a loop")
