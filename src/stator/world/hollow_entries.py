"""Loops over the keys, values or items of a hollow dict: what it holds is looked at only as far as the program does."""

from __future__ import annotations

from typing import Any

from stator.code.decode import unit_at
from stator.errors import Again
from stator.frame import Frame
from stator.world.hollow import DECLINED, END, Hollow
from stator.world.hollow_keyed import HollowDict
from stator.world.record import Record


class HollowEntries(Hollow):
    """An iterator over a hollow dict whose keys stay the same; any other use of it imports the dict whole."""

    def __init__(self, source: HollowDict, kind: str, keys: list[Any]) -> None:
        super().__init__(source.world, Record(source.obj, source.path, iter(getattr({}, kind)())))
        self.source = source
        self.kind = kind
        self.keys = iter(keys)

    def truth(self) -> Any:
        return True

    def advance(self, f: Frame, lazily: bool = False) -> Any:
        if self.source.record.hollow is not self.source:
            self.fill()
        key = next(self.keys, END)
        if key is END or self.kind == "keys":
            return key
        value = self.source.read(key)
        if self.kind == "values":
            return value
        return key, value if goes_on_with(f, "UNPACK_SEQUENCE") else self.world.settled(value)

    def fill(self) -> None:
        raise Again(self.path)


def goes_on_with(f: Frame, name: str) -> bool:
    """Whether the next instruction of a frame is of that kind."""
    raw = f.info.raw
    return unit_at(raw, unit_at(raw, f.lasti)[2])[0] == name


def entries(source: Hollow | None, kind: str) -> Any:
    """What a loop over a hollow dict goes through."""
    if not isinstance(source, HollowDict) or (keys := source.lasting_keys()) is None:
        return DECLINED
    made = HollowEntries(source, kind, keys)
    made.world.hollow[id(made.inner)] = made
    return made.inner
