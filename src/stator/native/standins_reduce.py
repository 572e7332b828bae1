"""Taking outside instances apart for copy and pickle: object.__reduce_ex__ and object.__getstate__ read natively."""

from __future__ import annotations

import copyreg
import functools
import types
from typing import Any

from stator import _frames
from stator._frames import UNBOUND
from stator.eval.machine import replace_body
from stator.frame import Frame, native, throw
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.receivers import VALUE_TYPES, check_receiver
from stator.native.rows import OVERRIDES, decisive
from stator.native.standins import attribute_or

PLAIN = {object, *VALUE_TYPES}  # what is not among the attributes is an argument of __new__
REDUCE, REDUCE_EX, GETSTATE = object.__reduce__, object.__reduce_ex__, object.__getstate__
SET_REDUCE = frozenset.__reduce__  # reads the instance's dict by itself


def slot_names(f: Frame) -> Any:
    """copyreg._slotnames keeps its answer on the class, which is no change of the class."""
    cls = f.locals[0]
    names = copyreg._slotnames(cls)  # type: ignore[attr-defined]
    f.world.refresh_types(cls)
    return list(names)


replace_body(copyreg._slotnames.__code__, slot_names)  # type: ignore[attr-defined]


def is_of(function: Any, descriptor: Any, obj: Any) -> bool:
    """Whether a C method, bound or not, is the one of `object`."""
    return function is descriptor or function == descriptor.__get__(obj)


def override_reduce_ex(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    obj = args[0]
    if not is_of(function, REDUCE_EX, obj) or len(args) != 2 or kwargs or type(args[1]) is not int:
        return otherwise(host, f, function, args, kwargs)
    if _frames.type_lookup(type(obj), "__reduce__") is not object.__dict__["__reduce__"]:
        return host.call(f, host.load_attr(f, obj, "__reduce__"), [], None)
    return reduced(host, f, obj, args[1])


def override_reduce(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and is_of(function, REDUCE, args[0]):
        return reduced(host, f, args[0], 0)
    if len(args) == 1 and not kwargs and isinstance(args[0], frozenset) and is_of(function, SET_REDUCE, args[0]):
        return type(args[0]), (list(frozenset.__iter__(args[0])),), state_of(host, f, args[0])
    return otherwise(host, f, function, args, kwargs)


def override_getstate(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if not is_of(function, GETSTATE, args[0]) or len(args) != 1 or kwargs:
        return otherwise(host, f, function, args, kwargs)
    return state_of(host, f, args[0])


def otherwise(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Another type's own method of that name, or wrong arguments."""
    check_receiver(host, function, args[0])
    bound = type(function) is types.BuiltinFunctionType
    return call_python(host, f, function, args[1:] if bound else args, kwargs)


def copyreg_function(host: Host, f: Frame, name: str) -> Any:
    return host.load_attr(f, host.enter_const(copyreg), name)


def reduced(host: Host, f: Frame, obj: Any, protocol: int) -> Any:
    """What object.__reduce_ex__ answers for an instance of a class made in Python."""
    cls = type(obj)
    if protocol < 2:
        return host.call(f, copyreg_function(host, f, "_reduce_ex"), [obj, protocol], None)
    if next(base for base in cls.__mro__ if not _frames.is_heap_type(base)) not in PLAIN:
        raise refuse(host, cls, "__reduce_ex__")
    args, keywords = new_arguments(host, f, obj)
    state = host.call(f, host.load_attr(f, obj, "__getstate__"), [], None)
    if keywords:
        return copyreg_function(host, f, "__newobj_ex__"), (cls, args, keywords), state, None, None
    return copyreg_function(host, f, "__newobj__"), (cls, *args), state, None, None


def refuse(host: Host, cls: type, name: str) -> Exception:
    return host.refuse("native-outside-object", f"{cls.__name__}.{name} of an outside object", function=name)


def new_arguments(host: Host, f: Frame, obj: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that __new__ wants again."""
    method = attribute_or(host, f, obj, "__getnewargs_ex__", UNBOUND)
    if method is not UNBOUND:
        found = host.call(f, method, [], None)
        if type(found) is not tuple or len(found) != 2 or type(found[0]) is not tuple or type(found[1]) is not dict:
            raise refuse(host, type(obj), "__getnewargs_ex__")
        return found
    method = attribute_or(host, f, obj, "__getnewargs__", UNBOUND)
    if method is UNBOUND:
        return (), {}
    args = host.call(f, method, [], None)
    if not isinstance(args, tuple):
        throw(f, TypeError(f"__getnewargs__ should return a tuple, not '{type(args).__name__}'"))
    return tuple(args), {}


def state_of(host: Host, f: Frame, obj: Any) -> Any:
    """object.__getstate__: the instance's dict, with its slots if it has any."""
    record = host.records[id(obj)]
    fields = host.namespace_of(record, materialise=True).expose() if host.has_dict(obj) else None
    state = fields or None
    names = native(f, copyreg._slotnames, type(obj))  # type: ignore[attr-defined]
    slots = {name: attribute_or(host, f, obj, name, UNBOUND) for name in names}
    slots = {name: value for name, value in slots.items() if value is not UNBOUND}
    return (state, slots) if slots else state


for _name, _row in {
    "__reduce_ex__": override_reduce_ex,
    "__reduce__": override_reduce,
    "__getstate__": override_getstate,
}.items():
    OVERRIDES[_name] = functools.partial(decisive, _row)
