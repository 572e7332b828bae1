"""Recipes for plain instances and exceptions, and the state any instance may carry: `__dict__` and slots."""

from __future__ import annotations

import builtins
import operator
import types
import typing
from collections.abc import Iterable
from typing import Any

from . import raw
from .plan import SELF, CannotRebuild, Const, Heap, Part, Piece, Plan, Splice, dict_of, listing, piece, tuple_of
from .recipes_containers import create


def build_instance(obj: object, solid: type, heap: Heap) -> Plan:
    if type(obj) is object:
        return Plan(piece("{0}()", Const(object)))
    # What `typing` has made are instances of Python classes that nobody changes.
    return Plan(create(object, obj), frozen=is_of_typing(obj))


def is_of_typing(obj: object) -> bool:
    return raw.class_dict(type(obj)).get("__module__") == "typing"


def build_alias(obj: Any, solid: type, heap: Heap) -> Plan:
    """`List[T]`: asked for again, as `typing` gives the same object each time."""
    maker, (origin, args) = obj.__reduce__() if is_of_typing(obj) else (None, (None, None))
    if maker is not operator.getitem:
        return build_instance(obj, object, heap).then(state(obj, solid, heap))
    return Plan(piece("{0}[{1}]", origin, args))


_ALIAS: Any = type(typing.List[int])  # noqa: UP006
WHOLE: dict[type, Any] = {
    cls: build_alias for cls in vars(typing).values() if isinstance(cls, type) and issubclass(cls, _ALIAS)
}

# State.


def state(obj: object, solid: type, heap: Heap) -> list[Piece]:
    """Statements that give a new instance the slots and the `__dict__` of obj."""
    return [*_slots(obj, solid), *_namespace(obj, heap)]


def store(cls: type, descriptor: Any, value: object) -> Piece:
    """Write through exactly this data descriptor."""
    if raw.stores_through(cls, descriptor.__name__, descriptor):
        return piece(f"{{0}}.{descriptor.__name__} = {{1}}", SELF, value)
    return piece("{0}({1}, {2})", bound(descriptor, "__set__"), SELF, value)


def bound(descriptor: Any, method: str) -> object:
    """A method of a C descriptor; that of a class which may be rebuilt has to be looked up on the new class."""
    if raw.flags(descriptor.__objclass__) & raw.HEAP_TYPE:
        return Splice(Part(descriptor), f".{method}")
    return Const(getattr(descriptor, method))


def _slots(obj: object, solid: type) -> Iterable[Piece]:
    return (store(type(obj), member, value) for member, value in raw.slots(obj, solid))


def _namespace(obj: object, heap: Heap) -> list[Piece]:
    namespace, descriptor = raw.instance_dict(obj)
    if namespace is None:
        if raw.hides_dict(obj):
            raise CannotRebuild(obj, "its class hides the instance __dict__ behind another attribute")
        return []
    cls = type(obj)
    if type(namespace) is not dict or heap.shares(obj, namespace):
        if type(descriptor) is types.MemberDescriptorType:
            raise CannotRebuild(obj, "its __dict__ cannot be replaced")
        return [store(cls, descriptor, namespace)]
    items = [*namespace.items()]
    if all(raw.stores_plainly(cls, name) for name, _ in items):
        return [piece(f"{{0}}.{name} = {{1}}", SELF, value) for name, value in items]
    return [piece("{0}.update({1})", Splice(*namespace_of(cls, descriptor, SELF)), dict_of(items))]


def namespace_of(cls: type, descriptor: Any, owner: object) -> Piece:
    """An expression for the instance `__dict__`."""
    if raw.reads_dict_plainly(cls, descriptor):
        return piece("{0}.__dict__", owner)
    return piece("{0}({1})", bound(descriptor, "__get__"), owner)


def build_instance_dict(owner: object) -> Plan:
    """The plan of a `__dict__` whose owner is rebuilt: it is there as soon as the owner is."""
    _, descriptor = raw.instance_dict(owner)
    return Plan(namespace_of(type(owner), descriptor, owner), inline=False)


# Exceptions.

_EXCEPTION: Any = BaseException.__dict__
_GROUP: Any = BaseExceptionGroup.__dict__


def build_exception(obj: BaseException, solid: type, heap: Heap) -> Plan:
    """`__new__` takes the arguments; the C fields that `__init__` would set are written one by one."""
    arguments = [*_EXCEPTION["args"].__get__(obj)]
    bare = create(solid, obj)
    rest = [store(type(obj), _EXCEPTION["args"], tuple_of(arguments))] if arguments else []
    fills = [*_fields(obj, solid), *_links(obj, heap)]
    if raw.derives(solid, OSError):
        # OSError.__new__ takes some arguments away from `args`.
        return Plan(bare, [*rest, *fills])
    if type(obj) is solid and raw.basicsize(solid) == raw.basicsize(BaseException):
        make = piece("{0}({1})", Const(solid), listing(arguments))
    else:
        make = create(solid, obj, *arguments)
    return Plan(make, fills, bare=bare, rest=rest)


def build_group(obj: BaseException, solid: type, heap: Heap) -> Plan:
    arguments = _EXCEPTION["args"].__get__(obj)
    message, members = _GROUP["message"].__get__(obj), _GROUP["exceptions"].__get__(obj)
    fills = [store(type(obj), _EXCEPTION["args"], arguments), *_links(obj, heap)]
    return Plan(create(BaseExceptionGroup, obj, message, members), fills)


def _fields(obj: BaseException, solid: type) -> Iterable[Piece]:
    for step in raw.mro(solid):
        if step is BaseException:
            return
        for descriptor in raw.class_dict(step).values():
            if type(descriptor) in raw.DATA_DESCRIPTORS and descriptor.__name__ != "__weakref__":
                try:
                    value = descriptor.__get__(obj, step)
                except AttributeError:
                    continue
                if value is not None:
                    yield store(type(obj), descriptor, value)


def _links(obj: BaseException, heap: Heap) -> Iterable[Piece]:
    # Setting a cause also sets `__suppress_context__`, so that comes last.
    fields = {
        name: _EXCEPTION[name].__get__(obj)
        for name in ("__cause__", "__context__", "__traceback__", "__suppress_context__")
    }
    if fields["__traceback__"] is not None:
        fields["__traceback__"] = heap.traceback(fields["__traceback__"])
    if not fields["__suppress_context__"] and fields["__cause__"] is None:
        del fields["__suppress_context__"]
    for name, value in fields.items():
        if value is not None:
            yield store(type(obj), _EXCEPTION[name], value)


ROWS: dict[type, Any] = {
    object: build_instance,
    **{
        cls: build_group if issubclass(cls, BaseExceptionGroup) else build_exception
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, BaseException)
    },
}
