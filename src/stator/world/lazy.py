"""Values that have not come through the door yet: nobody has looked at them, so nothing is guarded."""

from __future__ import annotations

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


def forced(world: World, value: Any) -> Any:
    """The value itself, entered now if that has not happened."""
    return value.force(world) if type(value) is Lazy else value
