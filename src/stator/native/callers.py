"""Calls, by kind of the object that is called."""

from __future__ import annotations

import functools
import os
import re
import types
import weakref
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import FAILED
from stator._frames import native as run_native
from stator.code.finishing import PASSED, length, truth
from stator.eval.methods import described, next_method
from stator.frame import RAISED, Frame
from stator.native import policy
from stator.native.held import check_referent, entered
from stator.native.receivers import (
    APPLYING,
    LruCache,
    check_applied,
    check_bases,
    check_cache,
    check_called,
    check_receiver,
    unbound,
    writes,
)
from stator.native.rows import NAMED_METHODS, OUTSIDE_METHODS, OVERRIDES, STANDINS, Caller, method_row, standin
from stator.world.door import by_identity, is_free
from stator.world.world import World

if TYPE_CHECKING:
    from stator.native.host import Host

Function, Builtin = types.FunctionType, types.BuiltinFunctionType
BuiltinOfClass: Any = type(re.compile("").match)  # C methods that know the class defining them
CO_VARARGS, CO_VARKEYWORDS = 0x04, 0x08
OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep
# Builtin types whose instances are constants, shadows or made inside: their methods work on nothing else.
CONTENT_TYPES = frozenset({list, dict, set, tuple, str, bytes, int, float, frozenset, bytearray, bool, complex})
HASHED_BY_IDENTITY = {
    Function,
    Builtin,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
}


def may_be_torch(kind: type) -> bool:
    """Whether objects of this type can be torch operations."""
    return kind in HASHED_BY_IDENTITY or str(type.__dict__["__module__"].__get__(kind)).startswith("torch")


def call_python(
    host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None, within: Any = None
) -> Any:
    """A Python function: CPython binds the arguments, and the frame arrives in the hook.

    `within` is the function whose result C code passes on.
    """
    f.called = (function if within is None else within) if f.tail == f.lasti else None
    if host.hollow:
        settle_arguments(host, function, args, kwargs)
    if host.streams and type(function) is not Function and not only_handles(function):
        host.leave_streams([*args, *(kwargs or {}).values()])
    if host.audit is not None:
        host.audit.check(function, args)
    result = _frames.native_apply(function, tuple(args), kwargs) if kwargs else run_native(function, *args)
    if result is FAILED:
        raise RAISED
    if type(result) is str:
        host.know_text(result)
    if type(result) is dict and id(result) in host.namespaces:  # C code that hands out the globals of a function
        return host.namespaces[id(result)].expose()
    return result


HANDLING = frozenset({isinstance, issubclass, type, id, hash, callable, hasattr, getattr, setattr, repr, print, super})
MOVING = frozenset(
    {"append", "appendleft", "insert", "add", "discard", "remove", "count", "index", "get", "setdefault", "pop",
     "__setitem__", "__getitem__", "__contains__", "__getattribute__", "__setattr__", "__init__", "__new__"}
)  # fmt: skip


def only_handles(function: Any) -> bool:
    """Whether a C function looks at no contents of its arguments."""
    if type(function) in HASHED_BY_IDENTITY or issubclass(type(function), type):
        return function in HANDLING or (not issubclass(type(function), type) and function.__name__ in MOVING)
    return type(function) is Builtin and function.__name__ in MOVING


def settle_arguments(host: World, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> None:
    """Hollow values may become arguments of frames, but nothing that is packed or read by native code."""
    packed: list[Any] = [*args, *(kwargs or {}).values()]
    if type(function) is Function and not function.__code__.co_filename.startswith(OWN_FOLDER):
        code = function.__code__
        packed = args[code.co_argcount :] if code.co_flags & CO_VARARGS else []
        if kwargs and code.co_flags & CO_VARKEYWORDS:
            packed = [*packed, *kwargs.values()]
    for value in packed:
        host.settled(value)


def call_framed(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A C function that looks at the calling frame."""
    return call_lent(host, f, function, args, kwargs, 0)


def call_lent(
    host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None, cells: int = 1
) -> Any:
    """A C function that looks at the variables of the calling frame."""
    lent = host.lend_frames(f, cells)
    try:
        return call_python(host, f, function, args, kwargs)
    finally:
        for frame in lent:
            frame.drop()


def call_torch(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    return host.record(f, function, args, kwargs)


def call_builtin(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A C function or a bound method of a C type."""
    owner = function.__self__
    if not is_free(owner):
        row = OUTSIDE_METHODS.get((id(type(owner)), function.__name__))
        if row is not None and id(owner) in host.records:
            return row(host, f, function, args, kwargs)
        record = host.records.get(id(owner))
        if record is not None and record.inner is record.obj and function.__name__ in OVERRIDES:
            return OVERRIDES[function.__name__](host, f, function, [owner, *args], kwargs)
        check_receiver(host, function, owner)
        row = method_row(function.__name__, owner)
        if row is not None:
            return row(host, f, unbound(function, owner), [owner, *args], kwargs)
        return call_python(host, f, function, args, kwargs)
    if issubclass(type(owner), type) and (row := method_row(function.__name__, owner)) is not None:
        return row(host, f, unbound(function, owner), [owner, *args], kwargs)
    return decided(host, f, function, args, kwargs)


def decided(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """What the policy table says."""
    decision = policy.decide(function)
    if decision == "run":
        if host.recorder is not None and host.recorder.has_arrays:
            host.check_arguments(function, args)
        if function in APPLYING:
            check_applied(host, args, kwargs)
        within = answering(f, function, args) if args else None
        if type(within) is Function and function in ASKED and not kwargs:
            return number_answered(host, f, function, within, args[0])
        return call_python(host, f, function, args, kwargs, within)
    if decision == "frames":
        return call_framed(host, f, function, args, kwargs)
    own = getattr(function, "__qualname__", str(function))
    if own.startswith("pybind11_"):  # how C++ names what holds it
        own = function.__name__
    name = f"{getattr(function, '__module__', '')}.{own}"
    raise host.refuse(decision, f"call of {name}", function=name)


def answering(f: Frame, function: Any, args: list[Any]) -> Any:
    """The method whose result a C function passes on, or makes its own of."""
    name = ANSWERED.get((id(function), len(args)))
    if name is None:
        return stored(f, function, args) if function is object.__setattr__ else None
    method, f.finish = name
    if function is next:
        f.kept = tuple(args[1:])
        return next_method(args[0]) or function
    if function in PASSED:
        f.kept = tuple(args)
    found = _frames.type_lookup(type(args[0]), method)
    return found if type(found) is Function else function


def number_answered(host: Host, f: Frame, function: Any, method: Any, obj: Any) -> Any:
    """`len(x)`, `float(x)`, `int(x)` by a method of the user's, whose answer need not be known yet."""
    host.type_info(type(obj))
    result = call_python(host, f, method, [obj], None)
    row, asked = (finish, result) if function is len else (finish_number, (obj, result))
    return row(host, f, length if function is len else PASSED[function], [asked], None)


def finish(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What `len` or a branch makes of an answer, which may be a symbol."""
    done, result = host.answered(len if function is length else bool, args[0])
    return result if done else call_python(host, f, function, [result], kwargs)


def finish_number(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The same of `float` and `int`."""
    kind = float if function is PASSED[float] else int
    obj, result = args[0]
    done, result = host.answered(kind, result)
    if done:
        return result
    if type(result) is not kind and issubclass(type(result), kind):
        raise host.refuse("native-effect", "a warning about the type of the result", function=kind.__name__)
    return call_python(host, f, function, [(obj, result)], kwargs)


standin(length, truth)(finish)
standin(*PASSED.values())(finish_number)


def stored(f: Frame, function: Any, args: list[Any]) -> Any:
    """`object.__setattr__` on an object whose class has a property or the like of that name."""
    whole = len(args) == 3 and type(args[1]) is str and _frames.is_heap_type(type(args[0]))
    method = described(type(args[0]), args[1], False) if whole else None
    if method is not None:
        f.finish = "setattr"
    return method


ASKED = frozenset({len, float, int})
ANSWERED: dict[tuple[int, int], tuple[str, str | None]] = {
    (id(next), 1): ("__next__", None),
    (id(next), 2): ("__next__", "next or default"),
    (id(len), 1): ("__len__", "len"),
    (id(float), 1): ("__float__", "float"),
    (id(int), 1): ("__int__", "int"),
    (id(bool), 1): ("__bool__", "bool"),
    (id(iter), 1): ("__iter__", "iter"),
}


def call_descriptor(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`list.append(x, 1)`, `object.__setattr__(x, …)`: an unbound C method."""
    if args:
        receiver = args[0]
        record = host.records.get(id(receiver))
        if record is not None and record.inner is record.obj:
            row = OVERRIDES.get(function.__name__)
            if row is not None:
                return row(host, f, function, args, kwargs)
            changes = type(function) is types.MethodDescriptorType or writes(function)
            if changes and not issubclass(type(receiver), type):
                check_receiver(host, function, receiver)
        row = method_row(function.__name__, receiver)
        if row is not None:
            return row(host, f, function, args, kwargs)
    return decided(host, f, function, args, kwargs)


def call_wrapper(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A bound slot method such as `super().__setattr__`."""
    record = host.records.get(id(function.__self__))
    if record is not None and record.inner is record.obj:
        row = OVERRIDES.get(function.__name__)
        if row is not None:
            return row(host, f, function, [function.__self__, *args], kwargs)
        if writes(function):
            check_receiver(host, function, function.__self__)
    if issubclass(type(function.__self__), type):  # isinstance would ask the program for __class__
        row = STANDINS.get(type.__dict__.get(function.__name__))
        if row is not None:
            return row(host, f, type.__dict__[function.__name__], [function.__self__, *args], kwargs)
    if function.__name__ == "__call__" and issubclass(type(function.__self__), weakref.ref):
        return host.call(f, weakref.ref.__call__, [function.__self__, *args], kwargs)
    of_object = type(function).__dict__["__objclass__"].__get__(function) is object
    if of_object and (row := STANDINS.get(object.__dict__.get(function.__name__))) is not None:
        return row(host, f, object.__dict__[function.__name__], [function.__self__, *args], kwargs)
    plain = function.__name__ == "__setattr__" and of_object
    within = stored(f, function, [function.__self__, *args]) if plain else None
    return call_python(host, f, function, args, kwargs, within)


def call_class(host: Host, f: Frame, cls: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """Making an instance."""
    if _frames.is_heap_type(cls):
        host.type_info(cls)
        check_bases(host, cls)
        return call_python(host, f, cls, args, kwargs, maker(f, cls, args, kwargs))
    return decided(host, f, cls, args, kwargs)


def maker(f: Frame, cls: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """What making an instance calls first, if that is one of the user's: `__call__` of a metaclass, `__new__` or
    `__init__`."""
    method = _frames.type_lookup(type(cls), "__call__")
    if method is not type.__dict__["__call__"]:
        return method if type(method) is Function else None
    found = _frames.type_lookup(cls, "__init__")
    initializer = found if type(found) is Function and found.__code__.co_argcount else None
    made = _frames.type_lookup(cls, "__new__")
    if type(made) is staticmethod and type(made.__func__) is Function:
        if initializer is None and found is not object.__init__:
            return None
        f.finish, f.kept = "new", (cls, tuple(args), dict(kwargs or {}))
        return made.__func__
    if initializer is not None:
        f.finish = "init"
    return initializer


def call_object(host: Host, f: Frame, obj: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """An instance with __call__."""
    host.type_info(type(obj))
    method = _frames.type_lookup(type(obj), "__call__")
    if type(method) is Function:
        return host.call(f, method, [obj, *args], kwargs)
    named = getattr(obj, "__name__", "") if not _frames.is_python_class(type(obj)) else ""  # no `__getattr__` of theirs
    if args and (row := NAMED_METHODS.get((full_name(type(args[0])), named))) is not None:
        return row(host, f, obj, args, kwargs)
    if issubclass(type(obj), weakref.ref):
        check_referent(host, f, obj)
        return entered(host, obj, call_python(host, f, obj, args, kwargs))
    if type(obj) is LruCache:
        check_cache(host, obj)
    else:
        check_called(host, obj, args)
    within = obj.func if type(obj) is functools.partial else None
    if type(within) is LruCache:
        return host.call(f, within, [*obj.args, *args], {**obj.keywords, **(kwargs or {})})
    return call_python(host, f, obj, args, kwargs, within.__func__ if type(within) is types.MethodType else within)


def full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def call_c_object(host: Host, f: Frame, obj: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """partial, itemgetter, lru_cache wrappers, and things that cannot be called."""
    if not callable(obj):
        return call_python(host, f, obj, args, kwargs)
    record = host.records.get(id(obj))
    if record is not None and record.inner is record.obj:
        cls = type(obj)
        if f"{cls.__module__}.{cls.__name__}" not in policy.IMMUTABLE_OUTSIDE:
            raise host.refuse("native-outside-object", f"call of an outside {cls.__name__}", function=cls.__name__)
    return call_python(host, f, obj, args, kwargs)


CALLERS: dict[int, Caller] = by_identity(
    {
        Function: call_python,
        Builtin: call_builtin,
        BuiltinOfClass: call_builtin,
        types.MethodDescriptorType: call_descriptor,
        types.WrapperDescriptorType: call_descriptor,
        types.ClassMethodDescriptorType: call_descriptor,
        types.MethodWrapperType: call_wrapper,
    }
)
