"""Scalars of numpy from outside that were seen to change: next to a tensor they are numbers as others."""

from __future__ import annotations

import math
import operator
import sys
from typing import Any

from stator.eval.settling import SERVED
from stator.frame import Frame
from stator.guards.check import EQ, TYPE_IS
from stator.world.door import IMPORTERS
from stator.world.hollow import DECLINED, Hollow
from stator.world.hollow import ROWS as HOLLOW

np: Any = sys.modules.get("numpy")  # torch imports it where it is installed
READ: Any = None if np is None else np.generic.item
TAKES = {int: "takes_int", float: "takes_float"}


class NumpyNumber(Hollow):
    """A scalar of numpy that is a number where nobody sees the difference."""

    methods = frozenset({"item"})
    combined: Any  # what an operator makes of two numbers, see numpy_made.py

    applied: Any  # the same of one

    def operate(self, f: Frame, function: Any, left: Any, right: Any) -> Any:
        return self.combined(self.world, function, left, right)

    def is_whole(self) -> bool:
        return issubclass(type(self.obj), np.integer)

    def negated(self) -> Any:
        return self.applied(self.world, operator.neg, self)

    def call(self, f: Frame, name: str, args: list[Any]) -> Any:
        return DECLINED if args else self.number()


class HollowNumber(NumpyNumber):
    """A copy of one from outside; which one it is gets guarded when somebody looks at it."""

    def number(self) -> Any:
        """What torch takes it for."""
        return self.world.enter(READ(self.obj), self.path.part("number", READ))

    def fill(self) -> None:
        self.guard(EQ, READ(self.obj), self.path.part("number", READ))


def hollow_number(world: Any, obj: Any, path: Any) -> Hollow | None:
    value, number = READ(obj), path.part("number", READ)
    takes = TAKES.get(type(value))
    if takes is None or not world.policy.learned or not getattr(world.policy, takes)(number, value):
        return None
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    return HollowNumber(world, world.register(obj, path, np.array(obj)[()]))


def enter_number(world: Any, obj: Any, path: Any) -> Any:
    """By class and value."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    world.guards.add(path.part("number", READ), EQ, READ(obj), world.origin())
    world.register(obj, path)
    return obj


def serve_size(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    """`abs`."""
    if len(args) != 1 or not isinstance(hollow, NumpyNumber):
        return DECLINED
    return hollow.applied(f.world, abs, hollow)


def serve_conversion(kind: Any) -> Any:
    def serve(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
        if len(args) != 1 or not isinstance(hollow, NumpyNumber):
            return DECLINED
        number = hollow.number()  # the first one changes how calls are made
        return f.world.call(f, kind, [number], None)

    return serve


if np is not None:
    for _kind in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8):
        IMPORTERS[id(_kind)] = enter_number
        HOLLOW[id(_kind)] = hollow_number
    SERVED[id(abs)] = serve_size
    for _kind in (int, float, round, math.floor, math.ceil, math.trunc):
        SERVED[id(_kind)] = serve_conversion(_kind)
