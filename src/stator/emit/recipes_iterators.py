"""Recipes for iterators and views; they are exact: same type, same underlying container, same position."""

from __future__ import annotations

import collections
import gc
import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from stator import _entry

from . import raw
from .makers import Nothing, advanced, ended_calls, ended_items
from .plan import SELF, CannotRebuild, Const, Heap, Part, Piece, Plan, Recipe, listing, piece
from .recipes_containers import create

_OUT_OF_STEP = "the container changed while it was being iterated"


def _referent(obj: object, kind: type) -> Any:
    """The container behind a C iterator or view, or None when it is exhausted."""
    return next((found for found in gc.get_referents(obj) if raw.is_a(found, kind)), None)


# Over sequences.


def _sequence(start: Callable[[Any], Any], finished: Any) -> Recipe:
    """The reduction has the sequence and an index; `finished` stands for the sequence of an exhausted iterator."""

    def build_sequence_iterator(obj: Any, solid: type, heap: Heap) -> Plan:
        _, (sequence, *_), *state = obj.__reduce__()
        if not state:
            return Plan(
                piece("{0}({1})", Const(start), finished), [piece("{0}.__setstate__({1})", SELF, len(finished))]
            )
        fills = [] if _is_start(obj, state[0]) else [piece("{0}.__setstate__({1})", SELF, state[0])]
        return Plan(piece("{0}({1})", Const(start), sequence), fills)

    return build_sequence_iterator


def _is_start(obj: object, index: int) -> bool:
    return index == 0 and type(obj) is not _REVERSE_LIST


def _reversed(start: Callable[[Any], Any], kinds: tuple[type, ...]) -> Recipe:
    """Backwards over a sequence whose length and items are read by C code alone."""

    def build_reverse_iterator(obj: Any, solid: type, heap: Heap) -> Plan:
        _, (sequence, *_), *state = raw.lookup(solid, "__reduce__")(obj)
        if type(obj) is not solid:
            raise CannotRebuild(obj, "its class is derived from an iterator")
        if not state:
            return Plan(piece("{0}({1})", Const(start), kinds[0]()))
        if not any(raw.is_a(sequence, kind) for kind in kinds):
            raise CannotRebuild(obj, "it iterates over an object whose length only its own code tells")
        # Starting needs the final length, moving to the index does not look at the items.
        return Plan(
            piece("{0}({1})", Const(start), Part(sequence, contents=True)),
            [piece("{0}.__setstate__({1})", SELF, state[0])],
        )

    return build_reverse_iterator


def build_getitem_iterator(obj: Any, solid: type, heap: Heap) -> Plan:
    _, (sequence, *_), *state = obj.__reduce__()
    if not state:
        return Plan(piece("{0}()", Const(ended_items)))
    if raw.lookup(type(sequence), "__iter__") is not raw.ABSENT:
        raise CannotRebuild(obj, "its class has an __iter__ of its own now")
    fills = [piece("{0}.__setstate__({1})", SELF, state[0])] if state[0] else []
    return Plan(piece("{0}({1})", Const(iter), sequence), fills)


# Over dicts and sets.


def _mapping(view: Callable[[Any], Any], start: Callable[[Any], Any] | None) -> Recipe:
    """dict iterators count positions; the rebuilt dict has the same items in the same order."""

    def build_mapping_iterator(obj: Any, solid: type, heap: Heap) -> Plan:
        mapping = _referent(obj, dict)
        template, functions = (
            ("{0}({1}({2}))", (Const(start), Const(view))) if start else ("{0}({2})", (Const(view), None))
        )
        if mapping is None:
            return Plan(piece(template, *functions, {}))
        try:
            remaining = obj.__reduce__()[1][0]
        except RuntimeError:
            raise CannotRebuild(obj, _OUT_OF_STEP) from None
        everything = [*(start(view(mapping)) if start else view(mapping))]
        steps = len(everything) - len(remaining)
        if steps < 0 or not all(_same_item(a, b) for a, b in zip(everything[steps:], remaining, strict=True)):
            raise CannotRebuild(obj, _OUT_OF_STEP)
        make = piece(template, *functions, Part(mapping, contents=True))
        if steps:
            make = (Const(advanced), "(", *make, f", {steps})")
        return Plan(make, inline=False)

    return build_mapping_iterator


def _same_item(left: Any, right: Any) -> bool:
    """Item iterators make a new pair each time."""
    if left is right:
        return True
    return (
        type(left) is type(right) is tuple
        and len(left) == len(right) == 2
        and all(a is b for a, b in zip(left, right, strict=True))
    )


def build_set_iterator(obj: Any, solid: type, heap: Heap) -> Plan:
    members = _referent(obj, set) or _referent(obj, frozenset)
    if members is None:
        return Plan(piece("{0}({1})", Const(iter), set()))
    kind = set if raw.is_a(members, set) else frozenset
    try:
        remaining = len(obj.__reduce__()[1][0])
    except RuntimeError:
        raise CannotRebuild(obj, _OUT_OF_STEP) from None
    if remaining == 0:
        return Plan(piece("{0}({1})", Const(iter), set()))
    if remaining != kind.__len__(members):
        raise CannotRebuild(
            obj,
            "the order of a set that is made anew may differ, so an iterator half way through cannot be moved along",
        )
    return Plan(piece("{0}({1})", Const(kind.__iter__), Part(members, contents=True)), inline=False)


def _view(method: Callable[[Any], Any], kind: type) -> Recipe:
    def build_view(obj: Any, solid: type, heap: Heap) -> Plan:
        return Plan(piece("{0}({1})", Const(method), _referent(obj, kind)))

    return build_view


def build_mapping_proxy(obj: Any, solid: type, heap: Heap) -> Plan:
    (mapping,) = gc.get_referents(obj)
    owner = _class_of(mapping)
    if owner is not None:
        return Plan(piece("{0}({1})", Const(raw.class_dict), owner))
    return Plan(piece("{0}({1})", Const(types.MappingProxyType), mapping))


def _class_of(mapping: object) -> type | None:
    """The class whose `__dict__` this is. Finding it is slow, but every class has a `__doc__` and few dicts do."""
    if type(mapping) is not dict or "__doc__" not in mapping:
        return None
    for found in gc.get_referrers(mapping):
        if raw.is_a(found, type) and gc.get_referents(raw.class_dict(found))[0] is mapping:
            return found
    return None


# Wrappers around other iterators.


def build_adaptor(obj: Any, solid: type, heap: Heap) -> Plan:
    """enumerate, zip, map, itertools: the reduction calls the type with the inner iterators, then sets the position."""
    maker, arguments, *rest = solid.__dict__["__reduce__"](obj)
    if maker is not type(obj):
        raise CannotRebuild(obj, "its state only translates to an iterator of another type")
    for argument in arguments:
        _check_iter(obj, argument)
    place = Const(raw.lookup(solid, "__setstate__"))
    fills = [piece("{0}({1}, {2})", place, SELF, rest[0])] if rest and rest[0] is not None else []
    return Plan(_made(obj, solid, arguments), fills)


def _made(obj: object, solid: type, arguments: Any) -> Piece:
    """A call of the C class; one derived from it may have an `__init__` of its own, which has run."""
    return (
        create(solid, obj, *arguments)
        if type(obj) is not solid
        else piece("{0}({1})", Const(solid), listing(arguments))
    )


def _check_iter(obj: object, argument: object) -> None:
    """The constructor calls iter() on what it wraps: that must not be user code."""
    method = raw.lookup(type(argument), "__iter__")
    if method is not raw.ABSENT and type(method) is not types.WrapperDescriptorType:
        raise CannotRebuild(obj, f"wrapping it again would run the __iter__ of {raw.class_name(type(argument))}")


def build_repeat(obj: Any, solid: type, heap: Heap) -> Plan:
    _, arguments = raw.lookup(solid, "__reduce__")(obj)
    return Plan(_made(obj, solid, arguments))


def build_calls(obj: Any, solid: type, heap: Heap) -> Plan:
    _, arguments = obj.__reduce__()
    if len(arguments) != 2:
        return Plan(piece("{0}()", Const(ended_calls)))
    return Plan(piece("{0}({1})", Const(iter), listing(arguments)))


def build_pairwise(obj: Any, solid: type, heap: Heap) -> Plan:
    inner = gc.get_referents(obj)
    if len(inner) > 1:
        raise CannotRebuild(obj, "the item it remembers cannot be given to a new one")
    for argument in inner:
        _check_iter(obj, argument)
    return Plan(_made(obj, solid, [inner[0] if inner else ()]))


def refuse_group(obj: Any, solid: type, heap: Heap) -> Plan:
    raise CannotRebuild(obj, "a group of groupby shares hidden state with it")


_REVERSE_LIST: type = type(reversed([]))
_TEE: type = type(itertools.tee(())[0])
_TEE_DATA: type = vars(itertools)["_tee_dataobject"]
_GROUPER: type = vars(itertools)["_grouper"]
_TUPLE_GETTER: type = vars(collections)["_tuplegetter"]
_deque_iterator: Any = type(iter(deque()))
_deque_reverse_iterator: Any = type(reversed(deque()))


def build_deque_iterator(obj: Any, solid: type, heap: Heap) -> Plan:
    maker, (members, *position) = obj.__reduce__()
    try:
        _entry.upcoming(0, obj)
    except RuntimeError:
        raise CannotRebuild(obj, _OUT_OF_STEP) from None
    start = deque.__iter__ if maker is _deque_iterator else deque.__reversed__
    if _referent(obj, deque) is None or not position:
        return Plan(piece("{0}({1})", Const(start), deque()))
    make = piece("{0}({1})", Const(start), Part(members, contents=True))
    if position[0]:
        make = (Const(advanced), "(", *make, f", {position[0]})")
    return Plan(make, inline=False)


_SEQUENCES: dict[type, Any] = {
    type(iter([])): _sequence(list.__iter__, []),
    type(iter(())): _sequence(tuple.__iter__, ()),
    type(iter("")): _sequence(str.__iter__, ""),
    type(iter("é")): _sequence(str.__iter__, "é"),
    type(iter(b"")): _sequence(bytes.__iter__, b""),
    type(iter(bytearray())): _sequence(bytearray.__iter__, bytearray()),
    type(iter(range(0))): _sequence(range.__iter__, range(0)),
    type(iter(range(1 << 70))): _sequence(range.__iter__, range(0)),
    type(reversed([])): _reversed(list.__reversed__, (list,)),
    reversed: _reversed(reversed, (tuple, str, bytes, bytearray)),
}
_MAPPINGS: dict[type, Any] = {
    type(iter({})): _mapping(dict.__iter__, None),
    type(iter({}.values())): _mapping(dict.values, iter),
    type(iter({}.items())): _mapping(dict.items, iter),
    type(reversed({})): _mapping(dict.__reversed__, None),
    type(reversed({}.values())): _mapping(dict.values, reversed),
    type(reversed({}.items())): _mapping(dict.items, reversed),
    type({}.keys()): _view(dict.keys, dict),
    type({}.values()): _view(dict.values, dict),
    type({}.items()): _view(dict.items, dict),
    type(OrderedDict().keys()): _view(OrderedDict.keys, OrderedDict),
    type(OrderedDict().values()): _view(OrderedDict.values, OrderedDict),
    type(OrderedDict().items()): _view(OrderedDict.items, OrderedDict),
    type(iter(set())): build_set_iterator,
    types.MappingProxyType: build_mapping_proxy,
    _deque_iterator: build_deque_iterator,
    _deque_reverse_iterator: build_deque_iterator,
}
_ADAPTORS: dict[type, Any] = dict.fromkeys(
    (
        enumerate,
        zip,
        map,
        filter,
        itertools.accumulate,
        itertools.chain,
        itertools.combinations,
        itertools.combinations_with_replacement,
        itertools.compress,
        itertools.cycle,
        itertools.dropwhile,
        itertools.filterfalse,
        itertools.groupby,
        itertools.islice,
        itertools.permutations,
        itertools.product,
        itertools.starmap,
        itertools.takewhile,
        itertools.zip_longest,
        _TEE,
        _TEE_DATA,
    ),
    build_adaptor,
)
ROWS: dict[type, Any] = {
    **_SEQUENCES,
    **_MAPPINGS,
    **_ADAPTORS,
    itertools.count: build_repeat,
    itertools.repeat: build_repeat,
    itertools.pairwise: build_pairwise,
    _GROUPER: refuse_group,
    type(iter(int, 1)): build_calls,
    type(iter(Nothing())): build_getitem_iterator,
    _TUPLE_GETTER: build_repeat,
}
