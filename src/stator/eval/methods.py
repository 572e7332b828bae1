"""Which method of a user's class an instruction calls, whose result it passes on: a break goes on inside of it."""

from __future__ import annotations

import collections
from types import FunctionType, MethodType
from typing import Any

from stator import _frames
from stator.code.finishing import COMPARED, FORWARD, INPLACE, NUMBERS, PLAIN
from stator.frame import Frame

SEQUENCES = frozenset({list, tuple, str, bytes, bytearray, collections.deque})  # with operators of their own
SIMPLE = frozenset(map(type, (iter([]), iter(()), iter(range(0)), iter(range(2**70)), iter(""), iter({}), iter(set()))))
MRO: Any = type.__dict__["__mro__"]


def method_of(cls: type, name: str) -> Any:
    """A method written in Python; None if the class has another or none."""
    if not _frames.is_heap_type(cls):
        return None
    found = _frames.type_lookup(cls, name)
    return found if type(found) is FunctionType else None


def next_method(iterator: Any) -> Any:
    """What gives the next item: a method, or the function that a `map` passes it through."""
    if type(iterator) is not map:
        return method_of(type(iterator), "__next__")
    reduced: Any = iterator.__reduce__()
    function, *items = reduced[1]
    if not SIMPLE.issuperset(map(type, items)):  # Python code that gives an item may be that function too
        return None
    return function.__func__ if type(function) is MethodType else function


def truth_method(cls: type) -> Any:
    """What tells whether an object is true."""
    return method_of(cls, "__bool__")


def expect(f: Frame, method: Any, finish: str | None = None, kept: tuple[Any, ...] = ()) -> None:
    """The frame of this method, if it is started next, is one that the instruction goes on after."""
    f.called, f.finish, f.kept = method, finish, kept


def operator_method(world: Any, function: Any, args: tuple[Any, ...]) -> Any:
    """The method that `function(*args)` asks first; None if that is not one of the user's."""
    left = type(args[0])
    if left in world.tensor_types:
        return None
    name = PLAIN.get(function)
    if name is not None:
        return method_of(left, name)
    right = type(args[1])
    others = _frames.is_heap_type(right) and right not in world.tensor_types
    if not _frames.is_heap_type(left) and not others:
        return None
    if function in INPLACE:
        name, function = INPLACE[function]
        if _frames.type_lookup(left, name) is not _frames.UNBOUND:
            return method_of(left, name)
    forward, reflected = COMPARED[function] if function in COMPARED else FORWARD[function]
    bases = MRO.__get__(right)
    if function not in COMPARED and not SEQUENCES.isdisjoint((*bases, *MRO.__get__(left))):
        return None
    if left in NUMBERS:
        return method_of(right, reflected)
    return None if right is not left and left in bases else method_of(left, forward)


def setter(cls: type, name: str, deletes: bool) -> Any:
    """What `obj.name = value` or `del obj.name` calls."""
    if not _frames.is_heap_type(cls) or type in MRO.__get__(cls):
        return None
    hook = _frames.type_lookup(cls, "__delattr__" if deletes else "__setattr__")
    if type(hook) is FunctionType:
        return None if str(hook.__module__).startswith("torch.") else hook
    if hook is not (object.__delattr__ if deletes else object.__setattr__):
        return None
    return described(cls, name, deletes)


def described(cls: type, name: str, deletes: bool) -> Any:
    """What a property or another descriptor of the class calls to set or delete an attribute."""
    found = _frames.type_lookup(cls, name)
    if type(found) is property:
        found = found.fdel if deletes else found.fset
        return found if type(found) is FunctionType else None
    return method_of(type(found), "__delete__" if deletes else "__set__")
