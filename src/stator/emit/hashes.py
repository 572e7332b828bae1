"""Keys whose hash is what code of the program said: containers get them under the hash that the example remembers.

Asking them again would run that code once more, and it may say something else by now, or raise.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable, Sequence
from typing import Any

from stator import _entry
from stator.guards.constant import is_plain

from . import raw
from .makers import Hashed, frozen_like
from .plan import SELF, Const, Heap, Piece, Plan, Source, Splice, keyed, listing, piece, tuple_of

_OTHERS = frozenset({"stator", "torch"})  # libraries whose `__hash__` may give an address
_IN_PARTS = (tuple, frozenset)  # hashed by their elements


def says(key: Any) -> bool:
    """Whether code of the program says the hash of this key, or of something it consists of."""
    method = raw.lookup(type(key), "__hash__")
    if type(method) is types.FunctionType:
        name = method.__globals__.get("__name__")
        return method is not enum.Enum.__hash__ and not (type(name) is str and name.partition(".")[0] in _OTHERS)
    return any(map(says, _parts(key, method)))


def is_fixed(key: Any) -> bool:
    """Whether the hash is the same number on each call, no matter where objects lie."""
    if is_plain(key):
        return True
    method = raw.lookup(type(key), "__hash__")
    if type(method) is types.FunctionType:
        return says(key)
    parts = _parts(key, method)
    return bool(parts) and all(map(is_fixed, parts))


def _parts(key: Any, method: object) -> list[Any]:
    return next(([*kind.__iter__(key)] for kind in _IN_PARTS if method is kind.__dict__["__hash__"]), [])


def known(container: Any, heap: Heap) -> dict[int, int]:
    """Hashes that the container remembers, by address of the key; of those keys that must not be asked."""
    if heap.hashes_vary:
        return {}
    return {id(key): number for key, number in _entry.stored_hashes(container) if says(key) and is_fixed(key)}


def put(target: object, hashes: dict[int, int], keys: Sequence[Any], values: Iterable[object] = ()) -> Piece:
    """A statement that adds keys to a set, or to a dict with these values."""
    numbers = Const(tuple(hashes.get(id(key)) for key in keys))
    holes = tuple_of(key if id(key) in hashes else keyed(key) for key in keys)
    filled = tuple_of(values)
    more = Splice(", ", *filled.fragments) if filled.fragments != ("(", ")") else Source("")
    return piece("{0}({1}, {2}, {3}{4})", Const(_entry.put_hashed), target, numbers, holes, more)


def _table(example: set[Any] | frozenset[Any]) -> tuple[Const, Splice]:
    """The table of a set all of whose elements have fixed hashes, with others in their places, and a list of these."""
    pairs = _entry.stored_hashes(example)
    template: set[Any] = set()
    _entry.set_like(template, example, [Hashed(number) for _, number in pairs])
    return Const(template), Splice("[", *listing(key for key, _ in pairs).fragments, "]")


def like(target: object, example: set[Any]) -> Piece:
    """A statement that gives a set the table of the example."""
    return piece("{0}({1}, {2}, {3})", Const(_entry.set_like), target, *_table(example))


def frozenset_plan(example: frozenset[Any]) -> Plan:
    return Plan(piece("{0}({1}, {2}, {3})", Const(frozen_like), type(example), *_table(example)))


def fill_set(target: object, example: Any, hashes: dict[int, int]) -> Piece:
    """A statement that makes an empty set equal to the example."""
    items = [key for key, _ in _entry.stored_hashes(example)]
    return like(target, example) if all(map(is_fixed, items)) else put(target, hashes, items)


def dict_plan(
    make: Piece, items: Sequence[tuple[Any, Any]], hashes: dict[int, int], fills: Sequence[Piece] = ()
) -> Plan:
    """A dict that is made empty and gets its keys later."""
    keys, values = [key for key, _ in items], [value for _, value in items]
    return Plan(make, [*fills, put(SELF, hashes, keys, values)])
