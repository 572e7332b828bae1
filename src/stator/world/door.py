"""The door: how a value from outside becomes a value of the captured program. One row per kind of value."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import gc
import operator
import random
import re
import struct
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from stator import _entry, _frames
from stator.errors import unsupported
from stator.guards import path as paths
from stator.guards.check import ALIVE, CODE_IS, EQ, IS, LEN, SAME, TYPE_IS, TYPE_VERSION
from stator.world import ambient
from stator.world.constants import (
    CONSTANT_TYPES,
    SINGLETON_TYPES,
    constant,
    enter_range,
    enter_text,
    enter_unequal,
    singleton,
)
from stator.world.containers import enter_bytearray, enter_deque, enter_dict, enter_frozenset, enter_list, enter_set
from stator.world.exceptions import enter_exception, enter_traceback
from stator.world.generators import GENERATOR_ROWS
from stator.world.iterators import ITERATOR_ROWS, enter_opaque, foreign, refuse_sequence
from stator.world.record import Importer
from stator.world.shadows import copy_attributes, shadow
from stator.world.thread_local import enter_thread_local

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


def enter_class(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, IS, obj, world.origin())
    world.type_info(obj)
    meta = type(obj)  # which has a say in what calls and `isinstance` do
    if _frames.is_heap_type(meta) and not world.is_inside_type(meta) and (version := _entry.type_version(meta)):
        world.guards.add(paths.const(meta), TYPE_VERSION, version, world.origin())
    ambient.notice_class(world, obj)
    return obj


def enter_module(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, IS, obj, world.origin())
    world.register(obj, path)
    return obj


def enter_function(world: World, obj: Any, path: Path) -> Any:
    """A function: its code and the globals it runs in; defaults and variables around it are read one by one."""
    world.guards.add(path, CODE_IS, obj.__code__, world.origin())
    world.guards.add(path.get("__globals__"), IS, obj.__globals__, world.origin())
    world.register(obj, path)
    return obj


def enter_method(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, TYPE_IS, types.MethodType, world.origin())
    function = world.enter(obj.__func__, path.get("__func__"))
    receiver = world.enter(obj.__self__, path.get("__self__"))
    return world.register_shadow(obj, path, types.MethodType(function, receiver))


DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def is_free(owner: Any) -> bool:
    """Whether a C function with this `__self__` is a function of a module or class rather than a bound method."""
    cls = type(owner)
    return (
        owner is None
        or issubclass(type(owner), (types.ModuleType, type))
        or cls.__name__.startswith(("pybind11", "PyCapsule"))
    )


def enter_builtin(world: World, obj: Any, path: Path) -> Any:
    """A C function: by identity if it belongs to a module or class, else as a method of its receiver."""
    owner, is_slot = obj.__self__, type(obj) is types.MethodWrapperType
    if is_free(owner) and not is_slot:  # the slot of a class (`super().__call__`) is another object each time
        world.guards.add(path, IS, obj, world.origin())
        ambient.notice_function(world, obj)
        world.notice_builtin(obj)
        return obj
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    receiver = world.enter(owner, path.get("__self__"))
    world.guards.add(path.get("__name__"), EQ, obj.__name__, world.origin())
    if is_slot:
        world.guards.add(path.get("__objclass__"), IS, obj.__objclass__, world.origin())
    else:
        world.guards.add(path.part("code", _entry.method_code), EQ, _entry.method_code(obj), world.origin())
    if receiver is owner:
        world.notice_builtin(obj)
        return obj
    if type(receiver) is not type(owner) and hasattr(receiver, "decay"):  # a number or text that varies
        receiver = receiver.decay()
    stands_in = type(receiver) is not type(owner)
    method = world.bound(receiver, owner, obj.__name__) if stands_in else bound_to(receiver, obj)
    return world.register_shadow(obj, path, method)


def bound_to(receiver: Any, method: Any) -> Any:
    """The same method of C, of another receiver: not what the program's class has under its name (`super().update`)."""
    for base in type.__dict__["__mro__"].__get__(type(receiver)):
        found = type.__dict__["__dict__"].__get__(base).get(method.__name__)
        if type(found) in DESCRIPTORS and found.__get__(method.__self__) == method:
            return found.__get__(receiver)
    return getattr(receiver, method.__name__)


def enter_instance(world: World, obj: Any, path: Path) -> Any:
    """An instance of a class made in Python: the object itself; its attributes are read one by one."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    world.register(obj, path)
    world.type_info(type(obj))  # among whose special methods it may be
    return obj


def enter_hidden(world: World, obj: Any, path: Path) -> Any:
    """An object whose state C keeps and reads by itself, also one of a class made in Python."""
    entered = enter_opaque(world, obj, path)
    if _frames.is_heap_type(type(obj)):
        world.type_info(type(obj))
    return entered


def enter_match(world: World, obj: Any, path: Path) -> Any:
    """A match of a text; the bytes of a buffer may be others by now."""
    if not issubclass(type(obj.string), (str, bytes)):
        raise world.refuse("outside-type", f"a match in a {type(obj.string).__name__}", type="re.Match")
    return enter_opaque(world, obj, path)


HIDING = (
    datetime.date, datetime.timedelta, property, classmethod, staticmethod, struct.Struct, types.GenericAlias,
    weakref.ref, functools.partial,
)  # fmt: skip
ZONES: dict[type, Any] = {cls: cls.__dict__["tzinfo"].__get__ for cls in (datetime.datetime, datetime.time)}


def enter_moment(world: World, obj: Any, path: Path) -> Any:
    """A time: C passes its zone, perhaps an object of the program, to what it makes of it."""
    cls = type(obj)
    entered = enter_hidden(world, obj, path)
    read = next(read for base, read in ZONES.items() if issubclass(cls, base))
    if (zone := read(obj)) is not None:
        world.enter(zone, path.part("tzinfo", read))
    return entered


def enter_cell(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, TYPE_IS, types.CellType, world.origin())
    known = world.cells.get(id(obj))
    if known is not None and known[1] is not path:  # a function that closes over it was there first
        world.guards.add(path, SAME, known[1], world.origin())
    world.register(obj, path)
    world.outside_cells[id(obj)] = obj
    return obj


def enter_tuple(world: World, obj: Any, path: Path) -> Any:
    cls = type(obj)
    world.guards.add(path, TYPE_IS, cls, world.origin())
    world.guards.add(path, LEN, tuple.__len__(obj), world.origin())
    items = [world.enter(item, path.item(i)) for i, item in enumerate(tuple.__iter__(obj))]
    if cls is tuple:
        return world.identities.enter_parts(obj, path, obj, items, tuple)
    world.type_info(cls)
    if all(map(operator.is_, items, tuple.__iter__(obj))):
        world.register(obj, path)
        return obj
    structure = is_structure(cls)
    if not structure and "n_fields" in _frames.class_dict(cls):  # some of its fields are no items
        raise world.refuse("outside-type", type=cls.__name__)
    inner = cls.__new__(cls, items) if structure else tuple.__new__(cls, items)
    copy_attributes(world, obj, path, inner)
    return world.register_shadow(obj, path, inner)


def is_structure(cls: type) -> bool:
    """Tuples with named fields that C makes, such as torch's results; some have fields that are no items."""
    fields = _frames.class_dict(cls)
    return fields.get("n_fields", 0) == fields.get("n_sequence_fields", -1)


def enter_value(world: World, obj: Any, path: Path) -> Any:
    """An instance of a subclass of an immutable builtin type: guarded by class and by the builtin value."""
    cls = type(obj)
    base, read = next((base, read) for base, read in VALUES.items() if issubclass(cls, base))
    world.guards.add(path, TYPE_IS, cls, world.origin())
    world.type_info(cls)
    world.guards.add(path.part(base.__name__, read), EQ, read(obj), world.origin())
    world.register(obj, path)
    return obj


VALUES: dict[type, Any] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}


def enter_random(world: World, obj: Any, path: Path) -> Any:
    """A random generator: what it draws is drawn on every call.

    Where that does not do, a full graph has a copy in the same state, which is guarded; its final state is put back.
    """
    cls = type(obj)
    if world.draws_numbers and cls is random.Random:
        return enter_instance(world, obj, path)
    if not world.patient:  # it is in another state on every call
        raise unsupported("native-impure", "the next random number", function="random")
    world.guards.add(path, TYPE_IS, cls, world.origin())
    if _frames.is_heap_type(cls):
        world.type_info(cls)
    state = C_RANDOM.getstate(obj)
    world.guards.add(path.part("state", C_RANDOM.getstate), EQ, state, world.origin())
    inner = C_RANDOM.__new__(cls)
    C_RANDOM.setstate(inner, state)
    copy_attributes(world, obj, path, inner)
    world.register(obj, path, inner).before = state
    return inner


C_RANDOM: Any = random.Random.__base__


def enter_partial(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, TYPE_IS, functools.partial, world.origin())
    function = world.enter(obj.func, path.get("func"))
    args = world.enter(obj.args, path.get("args"))
    keywords = world.enter(obj.keywords, path.get("keywords"))
    inner: Any = functools.partial(function)
    inner.__setstate__((function, args, keywords, None))  # these very ones: the program may look at and change them
    copy_attributes(world, obj, path, inner)
    return world.register_shadow(obj, path, inner)


def enter_namespace(world: World, obj: Any, path: Path) -> Any:
    inner = types.SimpleNamespace.__new__(type(obj))
    shadow(world, obj, path, inner)
    copy_attributes(world, obj, path, inner)
    return inner


def enter_getter(world: World, obj: Any, path: Path) -> Any:
    """itemgetter, attrgetter, methodcaller: known by what they were made of."""
    kind: Any = type(obj)
    world.guards.add(path, TYPE_IS, kind, world.origin())
    world.register(obj, path)
    world.enter(obj.__reduce__(), path.part("recipe", kind.__reduce__))
    return obj


def enter_super(world: World, obj: Any, path: Path) -> Any:
    """`super()` that a variable keeps: another one for the same class and object."""
    world.guards.add(path, TYPE_IS, super, world.origin())
    names = ("__thisclass__", "__self__")
    bound = [world.enter(super.__dict__[name].__get__(obj), path.get(name)) for name in names]
    return world.register_shadow(obj, path, super.__new__(super) if bound[0] is None else super(*bound))


def enter_weakref(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, IS, obj, world.origin())
    referent = obj()
    if referent is not None:  # else it stays dead
        world.guards.add(path, ALIVE, None, world.origin())
        inner = world.enter(referent, path.part("referent", operator.call))
        if obj.__callback__ is not None:
            world.mourned[id(inner)] = inner
        elif inner is not referent:
            return world.register_shadow(obj, path, weakref.ref(inner))
    return obj


def enter_proxy(world: World, obj: Any, path: Path) -> Any:
    """mappingproxy: a proxy of a shadow of what it shows."""
    world.guards.add(path, TYPE_IS, types.MappingProxyType, world.origin())
    inner = world.enter(gc.get_referents(obj)[0], path.part("mapping", gc.get_referents).item(0))
    return world.register_shadow(obj, path, types.MappingProxyType(inner))


def by_identity(rows: dict[type, Any]) -> dict[int, Any]:
    """A table by class identity: hashing a class could run its metaclass's code."""
    return {id(cls): row for cls, row in rows.items()}


IMPORTERS: dict[int, Importer] = by_identity(
    {
        **dict.fromkeys(CONSTANT_TYPES, constant),
        **dict.fromkeys(SINGLETON_TYPES, singleton),
        float: enter_unequal,
        complex: enter_unequal,
        str: enter_text,
        range: enter_range,
        **ITERATOR_ROWS,
        **GENERATOR_ROWS,
        tuple: enter_tuple,
        list: enter_list,
        dict: enter_dict,
        set: enter_set,
        frozenset: enter_frozenset,
        deque: enter_deque,
        bytearray: enter_bytearray,
        OrderedDict: enter_dict,
        defaultdict: enter_dict,
        types.FunctionType: enter_function,
        types.MethodType: enter_method,
        types.TracebackType: enter_traceback,
        types.BuiltinFunctionType: enter_builtin,
        type(re.compile("").match): enter_builtin,
        types.MethodWrapperType: enter_builtin,
        types.ModuleType: enter_module,
        types.CellType: enter_cell,
        types.CodeType: singleton,
        types.MappingProxyType: enter_proxy,
        functools.partial: enter_partial,
        types.SimpleNamespace: enter_namespace,
        weakref.ref: enter_weakref,
        super: enter_super,
        re.Pattern: singleton,
        re.Match: enter_match,
        struct.Struct: enter_opaque,
        **dict.fromkeys((operator.itemgetter, operator.attrgetter, operator.methodcaller), enter_getter),
        decimal.Context: ambient.enter_decimal_context,
        decimal.Decimal: ambient.enter_decimal,
        type(decimal.Context().flags): ambient.refuse_signals,
        type: enter_class,
    }
)

# By base class, in order, for types without a row of their own.
FAMILIES: list[tuple[type, Importer]] = [
    (type, enter_class),
    (enum.Enum, enter_opaque),
    (BaseException, enter_exception),
    (types.ModuleType, enter_module),
    (list, enter_list),
    (tuple, enter_tuple),
    (dict, enter_dict),
    (set, enter_set),
    (deque, enter_deque),
    (bytearray, enter_bytearray),
    (types.SimpleNamespace, enter_namespace),
    (frozenset, enter_frozenset),
    (C_RANDOM, enter_random),
    (threading.local, enter_thread_local),
    (decimal.Decimal, ambient.enter_decimal),
    (decimal.Context, ambient.enter_decimal_context),
    *((base, enter_value) for base in VALUES),
    *((base, enter_moment) for base in ZONES),
    *((base, enter_hidden) for base in HIDING),
]


KINDS = {family for family, _ in FAMILIES}
MRO: Any = type.__dict__["__mro__"]


def add_family(family: type, importer: Importer) -> None:
    """A row that comes before the others."""
    FAMILIES.insert(0, (family, importer))
    KINDS.add(family)


def importer_for(cls: type) -> Importer:
    """The row for a type, found by its family, else: Python classes by attributes, C types by identity."""
    row = IMPORTERS.get(id(cls))
    if row is None:
        if KINDS.isdisjoint(MRO.__get__(cls)):
            row = refuse_sequence if foreign(cls) else enter_instance if _frames.is_heap_type(cls) else enter_opaque
        else:
            row = next(importer for family, importer in FAMILIES if issubclass(cls, family))
        if not _frames.is_heap_type(cls):
            IMPORTERS[id(cls)] = row
    return row
