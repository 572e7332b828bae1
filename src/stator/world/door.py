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
from typing import TYPE_CHECKING, Any, cast

from stator import _entry, _frames
from stator._frames import UNBOUND
from stator.errors import unsupported
from stator.guards import path as paths
from stator.guards.check import ALIVE, CODE_IS, EQ, IS, KEYS, LEN, SAME, TYPE_IS, TYPE_VERSION
from stator.guards.constant import is_plain
from stator.world import ambient
from stator.world.exceptions import enter_exception, enter_traceback, exception_fields
from stator.world.generators import GENERATOR_ROWS
from stator.world.iterators import ITERATOR_ROWS, enter_opaque, foreign, refuse_sequence
from stator.world.record import Importer, Record
from stator.world.thread_local import enter_thread_local

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


def constant(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, EQ, obj, world.origin())
    world.identities.constants.setdefault(id(obj), (obj, []))[1].append(path)
    return obj


def enter_unequal(world: World, obj: Any, path: Path) -> Any:
    """A float or complex number: a constant; a nan is equal to nothing but the very same object, where C compares."""
    return world.identities.enter_nan(obj, path, constant) if obj != obj else constant(world, obj, path)


def enter_text(world: World, obj: str, path: Path) -> str:
    """A string: a constant, unless it is another one all the time; CPython does what looks at such a one."""
    if (path, "text", 0) in world.varying:
        raise unsupported("outside-type", "another string all the time", type="str")
    return cast(str, constant(world, obj, path))


def enter_range(world: World, obj: range, path: Path) -> Any:
    """By its value; a loop over one that was another one before is noticed."""
    if (path, "rounds", 0) in world.varying:
        world.varied_ranges[id(obj)] = obj
    return constant(world, obj, path)


def singleton(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, IS, obj, world.origin())
    return obj


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


def is_free(owner: Any) -> bool:
    """Whether a C function with this `__self__` is a function of a module or class rather than a bound method."""
    cls = type(owner)
    return (
        owner is None
        or isinstance(owner, (types.ModuleType, type))
        or cls.__name__.startswith(("pybind11", "PyCapsule"))
    )


def enter_builtin(world: World, obj: Any, path: Path) -> Any:
    """A C function: by identity if it belongs to a module or class, else as a method of its receiver."""
    owner = obj.__self__
    if is_free(owner):
        world.guards.add(path, IS, obj, world.origin())
        ambient.notice_function(world, obj)
        world.notice_builtin(obj)
        return obj
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    receiver = world.enter(owner, path.get("__self__"))
    world.guards.add(path.get("__name__"), EQ, obj.__name__, world.origin())
    if receiver is owner:
        world.notice_builtin(obj)
        return obj
    if type(receiver) is not type(owner) and hasattr(receiver, "decay"):  # a number or text that varies
        receiver = receiver.decay()
    return world.register_shadow(obj, path, getattr(receiver, obj.__name__))


def enter_instance(world: World, obj: Any, path: Path) -> Any:
    """An instance of a class made in Python: the object itself; its attributes are read one by one."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    world.register(obj, path)
    world.type_info(type(obj))  # among whose special methods it may be
    return obj


ZONES: dict[type, Any] = {cls: cls.__dict__["tzinfo"].__get__ for cls in (datetime.datetime, datetime.time)}


def enter_moment(world: World, obj: Any, path: Path) -> Any:
    """A time: C passes its zone, perhaps an object of the program, to what it makes of it."""
    cls = type(obj)
    entered = (enter_instance if _frames.is_heap_type(cls) else enter_opaque)(world, obj, path)
    read = next(read for base, read in ZONES.items() if issubclass(cls, base))
    if (zone := read(obj)) is not None:
        world.enter(zone, path.part("tzinfo", read))
    return entered


def enter_cell(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, TYPE_IS, types.CellType, world.origin())
    world.register(obj, path)
    return obj


def enter_tuple(world: World, obj: Any, path: Path) -> Any:
    cls = type(obj)
    world.guards.add(path, TYPE_IS, cls, world.origin())
    world.guards.add(path, LEN, len(obj), world.origin())
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


def same_place(inner: Any, outer: Any) -> bool:
    """Whether a set has both at the same place."""
    return inner is outer or (is_c_hashed(inner) and is_c_hashed(outer) and hash(inner) == hash(outer))


def enter_elements(world: World, obj: Any, path: Path) -> list[Any]:
    """Elements of a set in iteration order."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    world.guards.add(path, LEN, len(obj), world.origin())
    outer = list(base_of(type(obj), (set, frozenset)).__iter__(obj))
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
    if isinstance(obj, defaultdict):
        factory = defaultdict.__dict__["default_factory"].__get__(obj)
        inner.default_factory = world.enter(factory, path.get("default_factory"))
    fill_dict(world, obj, path, inner, base_of(cls, DICT_BASES).__setitem__)
    items = list(dict.items(inner)) if cls is dict else list(base_of(cls, DICT_BASES).items(inner))
    record.before = (inner.default_factory, items) if isinstance(obj, defaultdict) else items


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
    for key in (key for key in keys if not is_key(key) and not is_c_hashed(key)):
        raise world.refuse("outside-type", f"dict with a key of type {type(key).__name__}", type=type(key).__name__)
    fill_by_position(world, obj, path, inner, store)


def fill_by_position(world: World, obj: Any, path: Path, inner: Any, store: Any) -> None:
    """Items of an outside dict with keys that are no constants: pair by pair, in order."""
    base = base_of(type(obj), DICT_BASES)
    world.guards.add(path, LEN, len(list(base.keys(obj))), world.origin())
    pairs = path.part("items()", base.items).part("list", list)
    for i, (key, value) in enumerate(list(base.items(obj))):
        pair = pairs.item(i)
        store(inner, world.enter(key, pair.item(0)), world.enter(value, pair.item(1)))


def is_c_hashed(key: Any) -> bool:
    """Whether C alone (or Enum, by name; a tensor, by identity) hashes and compares the key."""
    cls = type(key)
    if cls is tuple or cls is frozenset:
        return all(is_key(part) or is_c_hashed(part) for part in key)
    hashed, equal = _frames.type_lookup(cls, "__hash__"), _frames.type_lookup(cls, "__eq__")
    if hashed in BY_ID:
        return True
    return (type(hashed) is types.WrapperDescriptorType or hashed is enum.Enum.__hash__) and type(
        equal
    ) is types.WrapperDescriptorType


BY_ID: list[Any] = []  # Python functions `__hash__` that give the id: no other object has the same hash


def is_key(key: Any) -> bool:
    """Whether equality of the key is decided by C alone: constants, and objects that hash by identity."""
    cls = type(key)
    if cls in CONSTANT_TYPES or cls in (range, slice):
        return True
    if cls is tuple or cls is frozenset:
        return all(map(is_key, key))
    return _frames.type_lookup(cls, "__hash__") in IDENTITY_HASHES


def is_lasting(key: Any) -> bool:
    """Whether guards may hold a key: objects of the program end when it lets go of them."""
    cls = type(key)
    if cls is tuple or cls is frozenset:
        return all(map(is_lasting, key))
    return cls in CONSTANT_TYPES or not _frames.is_heap_type(cls) or issubclass(cls, (type, enum.Enum))


IDENTITY_HASHES = (object.__hash__, type.__dict__.get("__hash__"), types.BuiltinFunctionType.__hash__, Ellipsis)


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
    world.guards.add(path, LEN, len(record.obj), world.origin())
    items = [world.enter(item, path.seq(i)) for i, item in enumerate(list(deque.__iter__(record.obj)))]
    deque.extend(record.inner, items)
    record.before = items


def enter_bytearray(world: World, obj: Any, path: Path) -> Any:
    if type(obj) is not bytearray:
        raise world.refuse("outside-type", type=type(obj).__name__)
    world.guards.add(path, TYPE_IS, bytearray, world.origin())
    world.guards.add(path.part("bytes", bytes), EQ, bytes(obj), world.origin())
    inner = bytearray(obj)
    world.register(obj, path, inner).before = bytes(obj)
    return inner


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


def shadow(world: World, obj: Any, path: Path, inner: Any) -> Any:
    """Guard the type and register before the elements enter: cycles end here."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    if type(obj).__module__ != "builtins":
        world.type_info(type(obj))
    return world.register(obj, path, inner)


def copy_attributes(world: World, obj: Any, path: Path, inner: Any) -> None:
    """Instance attributes and slots of a shadow whose class was made in Python (or in C with a `__dict__`)."""
    if type(obj).__dictoffset__:
        copy_fields(world, obj, path, inner)
    for name, member in slots_of(type(obj)):
        value = slot_value(member, obj)
        if value is not UNBOUND:
            member.__set__(inner, world.enter(value, path.get(name)))
    world.shadow_fields[id(inner)] = (inner, fields_of(inner))


def copy_fields(world: World, obj: Any, path: Path, inner: Any) -> None:
    """The instance dict: one that is only the object's, or the object itself (`self.__dict__ = self`)."""
    fields = _frames.instance_dict(obj)
    if fields is obj:
        world.guards.add(path.fields(), SAME, path, world.origin())
        object.__setattr__(inner, "__dict__", inner)
        return
    if fields is None and type(obj) is functools.partial:  # one with a dict, even an empty one, is not flattened
        world.guards.add(path.part("attributes", _frames.attribute_count), EQ, 0, world.origin())
        return
    world.guards.add(path.fields(), KEYS, tuple(fields or ()), world.origin())
    if fields is None:
        return
    if type(fields) is not dict or id(fields) in world.records:  # there is a shadow of it already
        raise world.refuse("outside-type", f"the __dict__ of a {type(obj).__name__}", type=type(obj).__name__)
    own = attributes_of(inner)
    world.register(fields, path.fields(), own)  # whose effects are those of its owner
    for name, value in list(fields.items()):
        own[name] = world.enter(value, path.attr(name) if type(name) is str else path.fields().entry(name))


def attributes_of(obj: Any) -> dict[Any, Any]:
    """The instance dict, made if need be."""
    own = _frames.instance_dict(obj)
    return object.__getattribute__(obj, "__dict__") if own is None else own


def slots_of(cls: type) -> list[tuple[str, Any]]:
    """(name, descriptor) of `__slots__` along the MRO."""
    return [
        (name, member)
        for base in type.__dict__["__mro__"].__get__(cls)
        if _frames.is_heap_type(base) and "__slots__" in _frames.class_dict(base)
        for name, member in _frames.class_dict(base).items()
        if type(member) is types.MemberDescriptorType and name != "__weakref__"
    ]


def slot_value(member: Any, obj: Any) -> Any:
    try:
        return member.__get__(obj)
    except AttributeError:
        return UNBOUND


def fields_of(obj: Any) -> dict[Any, Any]:
    """All attributes and filled slots of a shadow."""
    slots = {name: slot_value(member, obj) for name, member in slots_of(type(obj))}
    if isinstance(obj, BaseException):
        slots |= exception_fields(obj)
    fields = _frames.instance_dict(obj)
    return {
        **({} if fields is None or fields is obj else fields),
        **{name: value for name, value in slots.items() if value is not UNBOUND},
    }


def base_of(cls: type, bases: tuple[type, ...]) -> Any:
    """The builtin container class a subclass derives its storage from."""
    return next(base for base in bases if issubclass(cls, base))


def by_identity(rows: dict[type, Any]) -> dict[int, Any]:
    """A table by class identity: hashing a class could run its metaclass's code."""
    return {id(cls): row for cls, row in rows.items()}


SINGLETON_TYPES = {type(None), bool, type(...), type(NotImplemented)}
CONSTANT_TYPES = {int, float, complex, str, bytes, *SINGLETON_TYPES}

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
        re.Match: enter_opaque,
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
]


def importer_for(cls: type) -> Importer:
    """The row for a type, found by its family, else: Python classes by attributes, C types by identity."""
    row = IMPORTERS.get(id(cls))
    if row is None:
        for family, importer in FAMILIES:
            if issubclass(cls, family):
                row = importer
                break
        else:
            row = refuse_sequence if foreign(cls) else enter_instance if _frames.is_heap_type(cls) else enter_opaque
        if not _frames.is_heap_type(cls):
            IMPORTERS[id(cls)] = row
    return row
