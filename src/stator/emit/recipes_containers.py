"""Recipes for builtin containers and immutable values, and for subclasses of them."""

from __future__ import annotations

import array
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from typing import Any

import torch

from stator import _entry
from stator.guards.constant import is_plain

from . import hashes, raw
from .makers import replica
from .plan import SELF, Const, Heap, Piece, Plan, Source, Splice, dict_of, keyed, listing, piece, tuple_of


def create(solid: type, obj: object, *arguments: object) -> Piece:
    """`solid.__new__(cls, ...)`: never the class's own `__new__`."""
    return piece("{0}({1})", Const(raw.lookup(solid, "__new__")), listing([type(obj), *arguments]))


# Sequences.


def build_list(obj: Any, solid: type, heap: Heap) -> Plan:
    items = [*list.__iter__(obj)]
    if type(obj) is not list:
        return Plan(create(list, obj), _when(items, "{0}({1}, {2})", Const(list.extend), SELF, tuple_of(items)))
    return Plan(
        piece("[{0}]", listing(items)),
        bare=("[]",),
        rest=_when(items, "{0}.extend({1})", SELF, tuple_of(items)),
        bulk=piece("[*{0}]", Const(tuple(items))),
    )


def _when(items: Sequence[object], template: str, *objects: object) -> list[Piece]:
    return [piece(template, *objects)] if items else []


def build_tuple(obj: Any, solid: type, heap: Heap) -> Plan:
    items = tuple_of(tuple.__iter__(obj))
    return Plan(items.fragments, frozen=True) if type(obj) is tuple else Plan(create(tuple, obj, items))


def build_size(obj: Any, solid: type, heap: Heap) -> Plan:
    return Plan(piece("{0}({1})", Const(torch.Size), tuple_of(tuple.__iter__(obj))))


def build_deque(obj: Any, solid: type, heap: Heap) -> Plan:
    items = [*deque.__iter__(obj)]
    maxlen = deque.__dict__["maxlen"].__get__(obj)
    if type(obj) is not deque:
        return Plan(
            create(deque, obj), [piece("{0}({1}, {2}, {3})", Const(deque.__init__), SELF, tuple_of(items), maxlen)]
        )
    bound = Source("" if maxlen is None else f", {maxlen}")
    return Plan(
        piece("{0}({1}{2})", Const(deque), tuple_of(items), bound),
        bare=piece("{0}((){1})", Const(deque), bound),
        rest=_when(items, "{0}.extend({1})", SELF, tuple_of(items)),
    )


def build_bytearray(obj: Any, solid: type, heap: Heap) -> Plan:
    content = bytes(memoryview(obj))
    if type(obj) is bytearray:
        return Plan(piece("{0}({1})", Const(bytearray), content))
    return Plan(create(bytearray, obj), [piece("{0}({1}, {2})", Const(bytearray.extend), SELF, content)])


def build_array(obj: Any, solid: type, heap: Heap) -> Plan:
    content = array.array.tobytes(obj)
    code = array.array.__dict__["typecode"].__get__(obj)
    return Plan(create(array.array, obj, code, content))


# Sets.


def _comes_by_insertion(obj: set[Any], items: Sequence[Any]) -> bool:
    """Whether adding the elements in this order gives the same order, now and after later changes."""
    made: set[Any] = set()
    for item in items:
        made.add(item)
    return _entry.set_layout(made) == _entry.set_layout(obj) and all(a is b for a, b in zip(made, items, strict=True))


def build_set(obj: Any, solid: type, heap: Heap) -> Plan:
    items = [*set.__iter__(obj)]
    if known := hashes.known(obj, heap):
        make = piece("{0}()", Const(set)) if type(obj) is set else create(set, obj)
        return Plan(make, [hashes.fill_set(SELF, obj, known)])
    elements = tuple_of(map(keyed, items))
    in_place = not all(map(is_plain, items)) or _comes_by_insertion(obj, items)  # else the whole table is copied
    if type(obj) is not set:
        fill = piece("{0}({1}, {2})", Const(set.update), SELF, elements)
        if not in_place:
            fill = piece("{0}({1}, {2})", Const(_entry.set_like), SELF, Const(replica(obj)))
        return Plan(create(set, obj), [fill] if items else [])
    bare = piece("{0}()", Const(set))
    if not items:
        return Plan(bare)
    copy = piece("{0}({1})", Const(replica), Const(replica(obj)))
    if not in_place:
        return Plan(copy)
    make = piece("{{{0}}}", listing(map(keyed, items)))
    return Plan(make, bare=bare, rest=[piece("{0}.update({1})", SELF, elements)], bulk=copy)


def build_frozenset(obj: Any, solid: type, heap: Heap) -> Plan:
    if hashes.known(obj, heap) and all(map(hashes.is_fixed, frozenset.__iter__(obj))):
        return hashes.frozenset_plan(obj)
    elements = tuple_of(map(keyed, frozenset.__iter__(obj)))
    if type(obj) is frozenset:
        return Plan(piece("{0}({1})", Const(frozenset), elements), frozen=True)
    return Plan(create(frozenset, obj, elements))


# Mappings.


def build_dict(obj: Any, solid: type, heap: Heap) -> Plan:
    items = [*dict.items(obj)]
    if known := hashes.known(obj, heap):
        return hashes.dict_plan(("{}",) if type(obj) is dict else create(dict, obj), items, known)
    if type(obj) is not dict:
        return Plan(create(dict, obj), _when(items, "{0}({1}, {2})", Const(dict.update), SELF, dict_of(items)))
    return Plan(
        dict_of(items).fragments,
        bare=("{}",),
        rest=_when(items, "{0}.update({1})", SELF, dict_of(items)),
        bulk=piece("{0}.copy()", Const(dict.copy(obj))),
    )


def build_ordered_dict(obj: Any, solid: type, heap: Heap) -> Plan:
    items = raw.ordered_items(obj)
    if known := hashes.known(obj, heap):
        make = piece("{0}()", Const(OrderedDict)) if type(obj) is OrderedDict else create(OrderedDict, obj)
        return hashes.dict_plan(make, items, known)
    if type(obj) is not OrderedDict:
        insert = Const(OrderedDict.__setitem__)
        return Plan(
            create(OrderedDict, obj),
            [piece("{0}({1}, {2}, {3})", insert, SELF, keyed(key), value) for key, value in items],
        )
    bare = piece("{0}()", Const(OrderedDict))
    make = piece("{0}({1})", Const(OrderedDict), dict_of(items)) if items else bare
    return Plan(make, bare=bare, rest=_when(items, "{0}.update({1})", SELF, dict_of(items)))


def build_defaultdict(obj: Any, solid: type, heap: Heap) -> Plan:
    items = [*dict.items(obj)]
    factory = defaultdict.__dict__["default_factory"].__get__(obj)
    if known := hashes.known(obj, heap):
        start = piece("{0}({1}, {2})", Const(defaultdict.__init__), SELF, factory)
        return hashes.dict_plan(create(defaultdict, obj), items, known, [start])
    if type(obj) is not defaultdict:
        # defaultdict.__init__ on an empty dict only stores the factory.
        start = piece("{0}({1}, {2})", Const(defaultdict.__init__), SELF, factory)
        return Plan(
            create(defaultdict, obj), [start, *_when(items, "{0}({1}, {2})", Const(dict.update), SELF, dict_of(items))]
        )
    contents = Splice(", ", *dict_of(items).fragments) if items else Splice()
    set_factory = piece("{0}.default_factory = {1}", SELF, factory)
    return Plan(
        piece("{0}({1}{2})", Const(defaultdict), factory, contents),
        bare=piece("{0}()", Const(defaultdict)),
        rest=[set_factory, *_when(items, "{0}.update({1})", SELF, dict_of(items))],
    )


def build_namespace(obj: Any, solid: type, heap: Heap) -> Plan:
    return Plan(piece("{0}()", Const(solid)) if type(obj) is solid else create(solid, obj))


# Immutable values in subclasses.


def _value_of(solid: type, method: str) -> Any:
    read = getattr(solid, method)

    def build_value(obj: Any, cls: type, heap: Heap) -> Plan:
        return Plan(create(solid, obj, read(obj)))

    return build_value


def build_slice(obj: Any, solid: type, heap: Heap) -> Plan:
    return Plan(piece("{0}({1}, {2}, {3})", Const(slice), obj.start, obj.stop, obj.step), frozen=True)


def build_range(obj: Any, solid: type, heap: Heap) -> Plan:
    return Plan(piece("{0}({1}, {2}, {3})", Const(range), obj.start, obj.stop, obj.step), frozen=True)


ROWS = {
    list: build_list,
    tuple: build_tuple,
    torch.Size: build_size,
    deque: build_deque,
    bytearray: build_bytearray,
    array.array: build_array,
    set: build_set,
    frozenset: build_frozenset,
    dict: build_dict,
    OrderedDict: build_ordered_dict,
    defaultdict: build_defaultdict,
    types.SimpleNamespace: build_namespace,
    slice: build_slice,
    range: build_range,
    str: _value_of(str, "__str__"),
    bytes: _value_of(bytes, "__bytes__"),
    int: _value_of(int, "__int__"),
    float: _value_of(float, "__float__"),
    complex: _value_of(complex, "__complex__"),
}
