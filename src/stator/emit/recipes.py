"""The table of recipes: one row per type with C state; subclasses made in Python share the row of their solid base."""

from __future__ import annotations

from . import (
    raw,
    recipes_classes,
    recipes_containers,
    recipes_functions,
    recipes_instances,
    recipes_iterators,
    recipes_library,
    tracebacks,
)
from .plan import Heap, Plan, Recipe

# Rows that rebuild all state themselves, `__dict__` included.
WHOLE: dict[int, Recipe] = {
    id(cls): recipe for cls, recipe in {**recipes_classes.ROWS, **tracebacks.ROWS, **recipes_instances.WHOLE}.items()
}
ROWS: dict[int, Recipe] = {
    id(cls): recipe
    for table in (
        recipes_containers.ROWS,
        recipes_instances.ROWS,
        recipes_functions.ROWS,
        recipes_iterators.ROWS,
        recipes_library.ROWS,
    )
    for cls, recipe in table.items()
}
_KNOWN = WHOLE.keys() | ROWS.keys()


def register_whole(cls: type, recipe: Recipe) -> None:
    """Objects of this very class are rebuilt by this recipe alone."""
    WHOLE[id(cls)] = recipe
    _KNOWN.add(id(cls))


def plan_for(obj: object, heap: Heap) -> Plan:
    """The plan that rebuilds obj; raises CannotRebuild."""
    solid = raw.solid_base(type(obj), _KNOWN)
    whole = WHOLE.get(id(solid))
    if whole is not None:
        return whole(obj, solid, heap)
    recipe: Recipe = ROWS.get(id(solid), recipes_library.build_other)
    return recipe(obj, solid, heap).then(recipes_instances.state(obj, solid, heap))
