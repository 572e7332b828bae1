"""Values that enter as they are: numbers, texts, singletons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from stator.errors import unsupported
from stator.guards.check import EQ, IS

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


def constant(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, EQ, obj, world.origin())
    world.identities.constants.setdefault(id(obj), (obj, []))[1].append(path)
    return obj


def enter_unequal(world: World, obj: Any, path: Path) -> Any:
    """A float or complex number: a constant; a nan is equal to nothing but the very same object, where C compares."""
    return world.identities.enter_nan(obj, path, constant) if obj != obj else constant(world, obj, path)


def enter_text(world: World, obj: str, path: Path) -> str:
    """A string: a constant, unless it is another one all the time; CPython does what looks at such a one."""
    if (path, "text", 0) in world.varying:
        raise unsupported("outside-type", "another string all the time", type="str")
    return cast(str, constant(world, obj, path))


def enter_range(world: World, obj: range, path: Path) -> Any:
    """By its value; a loop over one that was another one before is noticed."""
    if (path, "rounds", 0) in world.varying:
        world.varied_ranges[id(obj)] = obj
    return constant(world, obj, path)


def singleton(world: World, obj: Any, path: Path) -> Any:
    world.guards.add(path, IS, obj, world.origin())
    return obj


SINGLETON_TYPES = {type(None), bool, type(...), type(NotImplemented)}


CONSTANT_TYPES = {int, float, complex, str, bytes, *SINGLETON_TYPES}
