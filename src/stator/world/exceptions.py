"""Outside exceptions: raising one changes it (context, traceback), so the captured program gets a shadow.

The traceback of the original stays as it is: frames of a capture mean nothing to the program that runs later.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.guards.check import TYPE_IS

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World

C_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)
UNWRITTEN = frozenset({"__dict__", "__traceback__"})
READ_ONLY = frozenset({"message", "exceptions", "__dict__"})  # given to a group's __new__
KEPT = frozenset({"value", "code"})  # numbers that C code does not look at
LAST = "__suppress_context__"  # setting a cause changes it
TRACEBACK = BaseException.__dict__["__traceback__"].__get__  # no code of the program runs


def c_fields(cls: type) -> dict[str, Any]:
    """Name -> descriptor of what the C classes along the MRO store in an exception."""
    fields: dict[str, Any] = {}
    for base in type.__dict__["__mro__"].__get__(cls):
        if not _frames.is_heap_type(base) and issubclass(base, BaseException):
            own = _frames.class_dict(base).items()
            fields |= {name: d for name, d in own if type(d) in C_FIELDS and name not in fields}
    fields[LAST] = fields.pop(LAST)
    return fields


def field_value(descriptor: Any, obj: Any) -> Any:
    try:
        return descriptor.__get__(obj)
    except (AttributeError, TypeError):  # not set
        return UNBOUND


def exception_fields(obj: Any) -> dict[str, Any]:
    """What the captured program may have changed, apart from attributes and the traceback."""
    values = {name: field_value(d, obj) for name, d in c_fields(type(obj)).items() if name not in UNWRITTEN | READ_ONLY}
    return {name: value for name, value in values.items() if value is not UNBOUND}


def blank(world: World, obj: Any, path: Path) -> Any:
    """A new exception of the same class, its `__init__` not run."""
    cls = type(obj)
    group = BaseExceptionGroup
    if not issubclass(cls, group):
        solid = next(base for base in type.__dict__["__mro__"].__get__(cls) if not _frames.is_heap_type(base))
        return solid.__new__(cls)
    text = group.message.__get__(obj)
    message = plain(world.enter(text, path.get("message")), text)
    members = world.enter(group.exceptions.__get__(obj), path.get("exceptions"))
    return group.__new__(cls, message, members)


def plain(entered: Any, value: Any) -> Any:
    """A number or text that varies as a constant."""
    return entered.decay() if type(entered) is not type(value) and hasattr(entered, "decay") else entered


def enter_traceback(world: World, obj: Any, path: Path) -> Any:
    """The traceback itself; that it is this very one is guarded when somebody looks into it."""
    world.guards.add(path, TYPE_IS, types.TracebackType, world.origin())
    world.register(obj, path)
    return obj


def enter_exception(world: World, obj: Any, path: Path) -> Any:
    from stator.world.shadows import copy_attributes  # the two know each other

    cls = type(obj)
    world.guards.add(path, TYPE_IS, cls, world.origin())
    if _frames.is_heap_type(cls):
        world.type_info(cls)
    inner = blank(world, obj, path)
    world.register(obj, path, inner).traceback = TRACEBACK(obj)
    for name, descriptor in c_fields(cls).items():
        value = UNBOUND if name in READ_ONLY else field_value(descriptor, obj)
        if value is not UNBOUND:
            entered = world.enter(value, path.get(name))
            if entered is not None and entered is not field_value(descriptor, inner):
                descriptor.__set__(inner, entered if name in KEPT else plain(entered, value))
    copy_attributes(world, obj, path, inner)
    return inner
