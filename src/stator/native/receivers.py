"""Which outside objects made in C native code may work on."""

from __future__ import annotations

import itertools
from functools import lru_cache, reduce
from types import FunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator.code.operators import SIGNS
from stator.native import policy
from stator.native.rows import OVERRIDES, STANDINS
from stator.world.door import is_free

if TYPE_CHECKING:
    from stator.native.host import Host

LruCache: Any = type(lru_cache(len))
APPLYING = frozenset(
    {map, filter, reduce, itertools.starmap, itertools.filterfalse, itertools.takewhile, itertools.dropwhile}
    | {itertools.groupby, itertools.accumulate}
)

VALUE_TYPES = (int, float, complex, str, bytes, tuple, frozenset)

CYTHON = "cython_function_or_method"  # each module of Cython may have a type of its own


def may_run(host: Host, function: Any) -> bool:
    """Whether native code may call a C function by itself."""
    owner = function.__self__
    if is_free(owner):
        return function not in STANDINS and policy.decide(function) == "run"
    record = host.records.get(id(owner))
    if record is None or record.inner is not record.obj:
        return True
    if function.__name__ in OVERRIDES and _frames.is_heap_type(type(owner)):  # it may read attributes
        return False
    return never_changes(owner) or only_reads(function, owner)


def never_changes(obj: Any) -> bool:
    """Whether the C part of an outside object is the same for ever."""
    return issubclass(type(obj), VALUE_TYPES) or any(
        f"{base.__module__}.{base.__name__}" in policy.IMMUTABLE_OUTSIDE
        for base in type.__dict__["__mro__"].__get__(type(obj))
    )


def only_reads(function: Any, owner: Any) -> bool:
    """Whether a method of an outside C object depends on nothing that changes."""
    return (f"{type(owner).__module__}.{type(owner).__name__}", function.__name__) in policy.READING_METHODS


def unbound(function: Any, owner: Any) -> Any:
    """The descriptor that a bound C method came from, which a subclass may override."""
    for base in type.__dict__["__mro__"].__get__(type(owner)):
        found = _frames.class_dict(base).get(function.__name__)
        if type(found) is MethodDescriptorType and found.__get__(owner) == function:
            return found
    return function


def check_receiver(host: Host, function: Any, owner: Any) -> None:
    """Bound methods of outside C objects run only where the object never changes."""
    record = host.records.get(id(owner))
    if record is None or record.inner is not record.obj:
        return
    cls = type(owner)
    if not never_changes(owner) and not only_reads(function, owner):
        name = f"{cls.__name__}.{function.__name__}"
        raise host.refuse("native-outside-object", f"call of {name} on an outside object", function=name)


WRITING_SLOTS = frozenset({"__init__", "__setitem__", "__delitem__", *(f"__i{name}__" for name, _ in SIGNS.values())})


def writes(wrapper: Any) -> bool:
    """Whether a slot of a class made in C changes the object: `Connection.__init__`, `array.__setitem__`."""
    if wrapper.__name__ not in WRITING_SLOTS:
        return False
    row: Any = type(wrapper).__dict__["__objclass__"]
    return row.__get__(wrapper) not in (object, type)


def check_bases(host: Host, cls: type) -> None:
    """The classes made in C that an instance is built from must be on the list."""
    if id(cls) in host.checked_classes:
        return
    for base in type.__dict__["__mro__"].__get__(cls):
        if not _frames.is_python_class(base):
            decision = policy.decide_class(base)
            if decision != "run":
                name = f"{base.__module__}.{base.__qualname__}"
                raise host.refuse(decision, f"making an instance of {name}", function=name)
    host.checked_classes[id(cls)] = cls


def check_called(host: Host, obj: Any, args: list[Any]) -> None:
    """An outside object that C code calls (Cython functions are such): only where it never changes anything."""
    record = host.records.get(id(obj))
    if record is None and args and type(obj).__name__ == CYTHON:  # a method of the type of the first argument
        check_receiver(host, obj, args[0])
    if record is None or record.inner is not record.obj or never_changes(obj):
        return
    mro = type.__dict__["__mro__"].__get__(type(obj))
    definer = next((base for base in mro if "__call__" in _frames.class_dict(base)), None)
    if definer is not None and not _frames.is_python_class(definer):
        name = getattr(obj, "__qualname__", None) or type(obj).__qualname__
        raise host.refuse("native-unknown", f"call of {name}, an outside {definer.__name__}", function=name)


def check_cache(host: Host, wrapper: Any) -> None:
    """What an outside lru_cache holds cannot be seen or put back: only caches of immutable values may be used."""
    function = getattr(wrapper, "__wrapped__", None)  # functools sets it after making one
    home = getattr(function, "__module__", None)
    outside = id(wrapper) in host.records or (type(function) is FunctionType and not host.is_inside_function(function))
    if outside and home not in policy.VALUE_CACHES:
        raise host.refuse("native-outside-object", f"call of a function of {home} with lru_cache", function="lru_cache")


def check_applied(host: Host, args: list[Any], kwargs: dict[str, Any] | None) -> None:
    """C code that calls what it is given would fill an lru_cache from outside."""
    for arg in (*args, *kwargs.values()) if kwargs else args:
        if type(arg) is LruCache:
            check_cache(host, arg)
