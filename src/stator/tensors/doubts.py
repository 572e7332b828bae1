"""Tensors of which nobody asked whether they are one, or share memory: it depends on sizes, and rarely matters.

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
    """Groups of memories, some of which may be one; and tensors that may be one, and share their memory in any case."""

    def __init__(self) -> None:
        self._groups: list[list[Storage]] = []
        self._objects: list[tuple[TracedTensor, TracedTensor]] = []

    def add(self, one: Storage, other: Storage) -> None:
        """These two may be one."""
        found = [group for group in self._groups if one in group or other in group]
        self._groups = [group for group in self._groups if group not in found]
        self._groups.append([one, other, *(storage for group in found for storage in group)])

    def add_object(self, one: TracedTensor, other: TracedTensor) -> None:
        """These two may be one."""
        self._objects.append((one, other))

    def concern(self, traced: TracedTensor) -> bool:
        if any(traced is one for pair in self._objects for one in pair):
            return True
        return any(traced._storage in group for group in self._groups)

    def may_be_one(self, one: TracedTensor, other: TracedTensor) -> bool:
        return one is not other and self.concern(one) and self.concern(other)

    def look(self, traced: TracedTensor) -> None:
        """Something is written to a tensor, or depends on which one it is."""
        if (self._groups or self._objects) and self.concern(traced):
            ask()

    def release(self) -> None:
        self._objects.clear()

    def at_end(self, outputs: Iterable[TracedTensor], inputs: Iterable[Storage]) -> None:
        """Of such memories one at most is known outside of the graph."""
        inputs, outputs = list(inputs), list(outputs)
        given = [id(traced) for traced in outputs]
        for one, other in self._objects:
            if id(other) in given and (id(one) in given or one._storage in inputs):
                ask()
        seen = {id(traced._storage): traced._storage for traced in outputs}
        outside = {**seen, **{id(storage): storage for storage in inputs}}
        for group in self._groups:
            known = {id(storage) for storage in group if id(storage) in outside}
            if len(known) > 1 and not known.isdisjoint(seen):
                ask()


def ask() -> NoReturn:
    """The capture has to be made again, without doubts."""
    raise Again(ASKING)
