"""Tensors of which nobody asked whether they share memory: that depends on sizes, and does not matter as a rule.

It does once something writes to one of them, or both are known outside of the graph. Then the capture starts again,
and asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from stator.errors import Again
from stator.guards import path as paths
from stator.tensors.traced import Storage, TracedTensor

ASKING = paths.const("whether tensors share memory")


class Doubts:
    """Groups of memories, some of which may be one."""

    def __init__(self) -> None:
        self._groups: list[list[Storage]] = []

    def add(self, one: Storage, other: Storage) -> None:
        """These two may be one."""
        found = [group for group in self._groups if one in group or other in group]
        self._groups = [group for group in self._groups if group not in found]
        self._groups.append([one, other, *(storage for group in found for storage in group)])

    def concern(self, traced: TracedTensor) -> bool:
        return any(traced._storage in group for group in self._groups)

    def may_be_one(self, one: TracedTensor, other: TracedTensor) -> bool:
        apart = one._storage is not other._storage
        return apart and any(one._storage in group and other._storage in group for group in self._groups)

    def look(self, traced: TracedTensor) -> None:
        """Something is written to a tensor, or depends on which one it is."""
        if self._groups and self.concern(traced):
            ask()

    def at_end(self, outputs: Iterable[TracedTensor], inputs: Iterable[Storage]) -> None:
        """Of such memories one at most is known outside of the graph."""
        if not self._groups:
            return
        seen = {id(traced._storage): traced._storage for traced in outputs}
        outside = {**seen, **{id(storage): storage for storage in inputs}}
        for group in self._groups:
            known = {id(storage) for storage in group if id(storage) in outside}
            if len(known) > 1 and not known.isdisjoint(seen):
                ask()


def ask() -> NoReturn:
    """The capture has to be made again, without doubts."""
    raise Again(ASKING)
