"""The first round of a loop that has a break: what it changes will be another one in the next round.

Values are known by where they entered the capture, and variables by where they had these values: when the call, or
what goes on behind a break, began, or when a function was called on the way to the break.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from stator.code.loops import carried_round
from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.path import Path
from stator.runtime.continuation import Break, FrameState, Variables
from stator.runtime.inherited import differences
from stator.runtime.learned import Lesson
from stator.tensors.traced import TracedTensor
from stator.world.hollow_keyed import Keyed
from stator.world.lazy import Lazy

Arrivals = dict[int, dict[int, tuple[Path, tuple[Any, ...]]]]  # by level of the frame and slot: where from, sizes

DEEPEST = 3  # containers in one another that are searched for states


def note(host: Any, f: Frame) -> None:
    """A function is called: its arguments that are tensors from outside."""
    found = {}
    for slot, value in enumerate(f.locals[: f.info.argcount]):
        if type(value) is Lazy and issubclass(type(value.value), torch.Tensor):
            found[slot] = value.path, tuple(value.value.shape)
        elif type(value) is TracedTensor and (record := host.records.get(id(value))) is not None:
            found[slot] = record.path, tuple(value._meta.size)
    host.arrivals[len(f.path)] = found


def grown(at: Break, begin: Variables | None, before: Sequence[Any], arrivals: Arrivals) -> Iterator[Lesson]:
    """Constants that the round in which a capture ends has changed.

    Of sizes, a single one that has become larger: what layers make of one another has other sizes altogether.
    """
    outer = at.frames[0]
    if begin is not None and begin.code is outer.code:
        for slot, now in _changed(at, outer, begin.unit):
            known = begin.numbers.get(outer.info.slots[slot])
            if known is not None and type(now) is not TracedTensor:
                yield from differences(before[known], now, paths.arg(known))
            elif known is not None and isinstance(before[known], torch.Tensor):
                yield from _larger(tuple(before[known].shape), now, paths.arg(known))
    for level, frame in enumerate(at.frames):
        for slot, now in _changed(at, frame, 0) if arrivals.get(level) else ():
            if slot in arrivals[level] and type(now) is TracedTensor:
                path, sizes = arrivals[level][slot]
                yield from _larger(sizes, now, path)


def joining_history(host: Any, at: Break, begin: Variables | None, before: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors without gradient, as states of recurrent layers begin, that have one in the next round.

    They are in variables that the round has assigned to, or in lists and dicts.
    """
    outer = at.frames[0]
    if begin is None or begin.code is not outer.code:
        return []
    found: list[torch.Tensor] = []
    assigned = {slot for slot, _ in _changed(at, outer, begin.unit)}
    for slot, number in zip(outer.slots, outer.slot_values, strict=True):
        known = begin.numbers.get(outer.info.slots[slot])
        if known is not None and (slot in assigned or type(before[known]) in (list, dict)):
            found.extend(_joining(host, before[known], at.values[number]))
    return found


def _joining(host: Any, old: Any, now: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if type(now) is Lazy and (record := host.records.get(id(now.value))) is not None:
        now = record.hollow.now if type(record.hollow) is Keyed and not record.hollow.unseen else record.inner
    if type(old) is type(now) and (pairs := _items(old, now)) is not None and depth < DEEPEST:
        for pair in pairs:
            yield from _joining(host, *pair, depth + 1)
    elif type(old) is torch.Tensor and type(now) is TracedTensor and not old.requires_grad:
        meta = now._meta
        if old.layout is not torch.strided or old.is_inference():
            return
        if meta.requires_grad and (meta.dtype, meta.device) == (old.dtype, old.device):
            yield old


def _items(old: Any, now: Any) -> Iterator[tuple[Any, Any]] | None:
    """The pairs of items of two lists, tuples (also named ones) or dicts; no method of the user's is called."""
    if issubclass(type(old), tuple) and tuple.__len__(old) == tuple.__len__(now):
        return zip(tuple.__iter__(old), tuple.__iter__(now), strict=True)
    if type(old) is list and len(old) == len(now):
        return zip(old, now, strict=True)
    if type(old) is dict:  # of a hollow one, those that were looked at
        return ((old[key], value) for key, value in now.items() if type(key) in (str, int) and key in old)
    return None


def _changed(at: Break, frame: FrameState, begin: int) -> Iterator[tuple[int, Any]]:
    """Slots and values of the variables of a frame that only loops around the break have changed."""
    slots = carried_round(frame.info, begin, frame.unit)
    numbers = zip(frame.slots, frame.slot_values, strict=True)
    return ((slot, at.values[number]) for slot, number in numbers if slot in slots)


def _larger(before: tuple[Any, ...], now: TracedTensor, path: Path) -> Iterator[Lesson]:
    if len(before) == len(now._meta.size):
        pairs = enumerate(zip(before, now._meta.size, strict=True))
        found = [(dim, old, new) for dim, (old, new) in pairs if type(old) is type(new) is int and old != new]
        if len(found) == 1 and found[0][1] < found[0][2]:
            yield path, "size", found[0][0]
