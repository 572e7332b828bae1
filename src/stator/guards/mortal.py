"""Objects that guards compare with, but do not keep alive."""

from __future__ import annotations

import weakref
from typing import Any

from stator._entry import mortal


class Mortal(weakref.ref[Any]):
    """A weak reference held in place of an object."""

    __slots__ = ()


class Gone:
    """What stands for an object that has died: equal and identical to nothing."""

    def __repr__(self) -> str:
        return "something that is gone"


GONE = Gone()


def held(obj: Any) -> Any:
    """What to keep of an object: a weak reference where it can die, the object itself elsewhere."""
    return Mortal(obj) if mortal(obj) else obj


def alive(kept: Any) -> Any:
    """The object, or GONE."""
    if type(kept) is not Mortal:
        return kept
    obj = kept()
    return GONE if obj is None else obj
