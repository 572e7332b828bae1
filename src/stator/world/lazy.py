"""Values that have not come through the door yet: nobody has looked at them, so nothing is guarded."""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from stator.guards.path import Path

if TYPE_CHECKING:
    from stator.world.world import World


class Lazy:
    """An outside value in a local variable or on the stack; it enters when an instruction needs it."""

    __slots__ = ("entered", "path", "value")

    def __init__(self, value: Any, path: Path) -> None:
        self.value = value
        self.path = path
        self.entered: tuple[Any] | None = None

    def force(self, world: World) -> Any:
        """The capture-side form of the value, which may be hollow."""
        if self.entered is None:
            self.entered = (world.light(self.value, self.path),)
        return self.entered[0]

    def called(self, world: World) -> Any:
        """The same for a value that is called, and nothing else: a method of a container that stays hollow."""
        if self.entered is None and type(self.value) is BuiltinFunctionType:
            method = world.light_method(self.value, self.path)
            if method is not None:
                return method
        return self.force(world)


def forced(world: World, value: Any) -> Any:
    """The value itself, entered now if that has not happened."""
    return value.force(world) if type(value) is Lazy else value
