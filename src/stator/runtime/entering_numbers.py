"""Numbers from outside as constants or symbols, and the attributes of those."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from stator.frame import Frame
from stator.guards.check import LEN, TYPE_IS
from stator.native.attribute_rows import READERS, WRITERS
from stator.runtime.given_texts import bound, is_method
from stator.runtime.number_calls import STANDS_FOR
from stator.runtime.number_methods import NumberMethod
from stator.shapes.calculations import INT_MATH
from stator.shapes.floats import TracedFloat, depends_on_data
from stator.shapes.guesses import is_next
from stator.shapes.scalar import TracedBool, TracedInt
from stator.world.constants import constant, enter_unequal
from stator.world.door import IMPORTERS


def read_int(host: Any, f: Frame, obj: TracedInt, name: str) -> Any:
    """Attributes of a symbolic int."""
    if name == "__class__":
        return int
    if name in OF_INTS:
        return OF_INTS[name](obj)
    method = getattr(int, name, None)
    if type(method) is types.MethodDescriptorType and method in INT_MATH:
        return NumberMethod(obj, name, getattr(TracedInt, name))
    return host.load_attr(f, obj.decay(), name)


OF_INTS: dict[str, Callable[[Any], Any]] = {
    "real": lambda number: number,
    "numerator": lambda number: number,
    "imag": lambda number: 0,
    "denominator": lambda number: 1,
    "conjugate": lambda number: NumberMethod(number, "conjugate", operator.pos),
}


def read_float(host: Any, f: Frame, obj: TracedFloat, name: str) -> Any:
    """Attributes of a symbolic float."""
    if name == "real" and not obj.mixed:
        return obj
    if name == "conjugate" and not obj.mixed:
        return NumberMethod(obj, name, operator.pos)
    if name == "is_integer" and not obj.mixed:
        return NumberMethod(obj, name, TracedFloat.is_integer)
    if not obj.mixed and not depends_on_data(obj) and is_method(f, float, name):
        return bound(float, name, obj)
    return host.class_of(obj) if name == "__class__" else host.load_attr(f, obj.decay(), name)


def read_bool(host: Any, f: Frame, obj: TracedBool, name: str) -> Any:
    """Attributes of a symbolic bool."""
    return bool if name == "__class__" else host.load_attr(f, obj.decay(), name)


def write_number(host: Any, f: Frame, obj: TracedInt | TracedFloat | TracedBool, name: str, value: Any) -> None:
    """Numbers take no attributes: the constant raises as they do."""
    host.store_attr(f, obj.decay(), name, value)


def enter_int(world: Any, obj: int, path: Any) -> Any:
    """An int from outside: a constant, or a symbol if it was seen to change."""
    return enter_number(world, obj, path, world.policy.takes_int)


def enter_number(world: Any, obj: int, path: Any, takes: Callable[[Any, int], bool]) -> Any:
    policy = world.policy
    if (policy.learned or policy.dynamic or is_next(path)) and takes(path, obj):
        world.guards.add(path, TYPE_IS, int, world.origin())
        return world.symbolic_int(path, obj)
    return constant(world, obj, path)


def enter_size(world: Any, obj: torch.Size, path: Any) -> Any:
    """A size from outside: its numbers one by one."""
    world.guards.add(path, TYPE_IS, torch.Size, world.origin())
    world.guards.add(path, LEN, len(obj), world.origin())
    items = [enter_number(world, number, path.item(i), world.policy.takes_part) for i, number in enumerate(obj)]
    return world.identities.enter_parts(obj, path, obj, items, torch.Size)


def enter_float(world: Any, obj: float, path: Any) -> Any:
    """A float from outside: a constant, or an input of the graph if it was seen to change."""
    if not world.policy.learned or not world.policy.takes_float(path, obj):
        return enter_unequal(world, obj, path)
    if obj != obj:
        return world.identities.enter_nan(obj, path, symbolic_float)
    return symbolic_float(world, obj, path)


def symbolic_float(world: Any, obj: float, path: Any) -> Any:
    world.guards.add(path, TYPE_IS, float, world.origin())
    return world.symbolic_float(path, obj)


READERS[id(TracedInt)] = read_int


READERS[id(TracedFloat)] = read_float


READERS[id(TracedBool)] = read_bool


WRITERS.update(dict.fromkeys(map(id, STANDS_FOR), write_number))


IMPORTERS.update({id(int): enter_int, id(float): enter_float, id(torch.Size): enter_size})
