"""Methods of numbers that vary (`n.bit_length`), which a program may keep, pass on and call later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stator.emit.plan import Const, Heap, Plan, piece
from stator.emit.recipes import register_whole
from stator.frame import Frame, native
from stator.native.attribute_rows import READERS
from stator.native.callers import CALLERS


class NumberMethod:
    """One without arguments, yet to be called."""

    __slots__ = ("function", "name", "number")

    def __init__(self, number: Any, name: str, function: Callable[[Any], Any]) -> None:
        self.number = number
        self.name = name
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Called by C."""
        return self.decay()(*args, **kwargs) if args or kwargs else self.function(self.number)

    def __eq__(self, other: object) -> bool:
        if type(other) is not NumberMethod:
            return False
        alike = self.name == other.name and self.number is other.number
        return alike or bool(self.decay() == other.decay())

    def __hash__(self) -> int:
        return hash(self.decay())

    def decay(self) -> Any:
        """That of the number it is now."""
        return getattr(self.number.decay(), self.name)


def call_method(host: Any, f: Frame, method: NumberMethod, args: list[Any], kwargs: Any) -> Any:
    if args or kwargs:
        return host.call(f, method.decay(), args, kwargs)  # which raises
    return native(f, method.function, method.number)


def read_method(host: Any, f: Frame, method: NumberMethod, name: str) -> Any:
    return host.load_attr(f, method.decay(), name)


def build_method(method: Any, solid: type, heap: Heap) -> Plan:
    """The method of the number that it is then."""
    return Plan(piece("{0}({1}, {2})", Const(getattr), method.number, method.name))


CALLERS[id(NumberMethod)] = call_method
READERS[id(NumberMethod)] = read_method
register_whole(NumberMethod, build_method)
