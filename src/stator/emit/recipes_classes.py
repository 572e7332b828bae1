"""Recipes for classes and modules made during capture.

`type.__new__` runs no metaclass code but its `mro`, and it calls `__set_name__` of attributes and `__init_subclass__`
of bases. So attributes with `__set_name__` are put in afterwards, and classes below a base with `__init_subclass__` or
of a metaclass with `mro` are refused.
"""

from __future__ import annotations

import _abc
import abc
import types
import typing
from typing import Any

from . import atoms, raw
from .plan import SELF, CannotRebuild, Const, Heap, Piece, Plan, dict_of, piece, tuple_of
from .recipes_containers import create
from .recipes_instances import state

# Their `__init_subclass__` only derives attributes from the class itself.
_HARMLESS_BASES = (object, typing.Generic)
_ABC_DATA: type = type(vars(abc.ABC)["_abc_impl"])
_SET = Const(type.__setattr__)


def build_class(obj: type, solid: type, heap: Heap) -> Plan:
    for step in raw.mro(obj)[1:]:
        if "__init_subclass__" in raw.class_dict(step) and not any(step is base for base in _HARMLESS_BASES):
            raise CannotRebuild(obj, f"making it again would run __init_subclass__ of {raw.class_name(step)}")
    if raw.lookup(type(obj), "mro") is not vars(type)["mro"]:
        raise CannotRebuild(obj, f"making it again would run mro of {raw.class_name(type(obj))}")
    early, after = _attributes(obj)
    late = [name for name, value in early.items() if _sets_name(value)]
    movable = [name for name, value in early.items() if name not in late and not _is_fixed(name, value, heap)]
    return Plan(
        _new(obj, early, late),
        [*_put(early, late), *_put(after, [*after]), *_finish(obj)],
        bare=_new(obj, early, [*late, *movable]),
        rest=_put(early, movable),
    )


def _sets_name(value: object) -> bool:
    """Whether `type.__new__` would run code for this attribute; a property only notes its name."""
    return type(value) is not property and raw.lookup(type(value), "__set_name__") is not raw.ABSENT


def _attributes(obj: type) -> tuple[dict[str, object], dict[str, object]]:
    """The class `__dict__` without what `type.__new__` and ABCMeta put there: before and after that."""
    members = {name for name, _ in raw.slot_members(obj)}
    names = raw.class_dict(obj)
    if members and members != _declared_slots(obj, names.get("__slots__")):
        raise CannotRebuild(obj, "its __slots__ no longer tell which slots it has")
    early: dict[str, object] = {}
    after: dict[str, object] = {}
    found = early
    for name, value in names.items():
        is_made_by_type = type(value) in raw.DATA_DESCRIPTORS and value.__objclass__ is obj
        if is_made_by_type or (name == "__doc__" and value is None):
            found = after
        elif name not in ("__abstractmethods__", "_abc_impl"):
            found[name] = value
    return early, after


def _declared_slots(obj: type, slots: object) -> set[str]:
    if type(slots) is str:
        slots = (slots,)
    if type(slots) not in (tuple, list, dict):
        return set()
    prefix = "_" + raw.class_name(obj).lstrip("_")
    names = {name for name in slots if type(name) is str}  # type: ignore[attr-defined]
    return {prefix + n if n.startswith("__") and not n.endswith("__") else n for n in names} - {
        "__dict__",
        "__weakref__",
    }


def _is_fixed(name: str, value: object, heap: Heap) -> bool:
    """Attributes that are there from the start even when the class is part of a cycle."""
    if name in ("__slots__", "__module__", "__orig_bases__"):
        return True
    if type(vars(type).get(name)) in raw.DATA_DESCRIPTORS:  # assigning it later would do something else
        return True
    return atoms.literal(value) is not None or atoms.is_constant(value, heap.inside)


def _new(obj: type, attributes: dict[str, object], absent: list[str]) -> Piece:
    """None stands in for the attributes that follow, which keeps their order."""
    namespace = {name: None if name in absent else value for name, value in attributes.items()}
    namespace["__qualname__"] = raw.class_qualname(obj)
    bases = tuple_of(raw.bases(obj))
    return piece(
        "{0}({1}, {2}, {3}, {4})",
        Const(type.__new__),
        type(obj),
        raw.class_name(obj),
        bases,
        dict_of(namespace.items()),
    )


def _put(attributes: dict[str, object], names: list[str]) -> list[Piece]:
    return [piece("{0}({1}, {2}, {3})", _SET, SELF, name, attributes[name]) for name in names]


def _finish(obj: type) -> list[Piece]:
    """What ABCMeta adds: which methods are abstract is not asked again, as that may run code, or have changed since."""
    names = raw.class_dict(obj)
    added = _put(names, ["__abstractmethods__"]) if "__abstractmethods__" in names else []
    if type(names.get("_abc_impl")) is _ABC_DATA:
        if _abc._get_dump(obj)[0]:
            raise CannotRebuild(obj, "classes are registered as its virtual subclasses")
        added.append(piece("{0}({1}, {2}, {3}())", _SET, SELF, "_abc_impl", Const(_ABC_DATA)))
    return added


def build_module(obj: types.ModuleType, solid: type, heap: Heap) -> Plan:
    namespace, _ = raw.instance_dict(obj)
    if heap.shares(obj, namespace):
        raise CannotRebuild(obj, "its namespace is in use as globals")
    return Plan(create(types.ModuleType, obj), state(obj, solid, heap))


ROWS: dict[type, Any] = {type: build_class, types.ModuleType: build_module}
