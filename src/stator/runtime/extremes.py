"""`max` and `min` of numbers that a generator gives, and of tensors: the graph compares what only data tells."""

from __future__ import annotations

import itertools
import types
from typing import Any

import torch

from stator._frames import FAILED
from stator._frames import native as run_native
from stator.frame import RAISED, Frame
from stator.native.callers import call_python
from stator.native.rows import standin
from stator.runtime import choices
from stator.runtime.number_calls import MIXED, ROWS

END = object()
COMPARE = {max: torch.gt, min: torch.lt}
MOST = 16  # tensors of which the graph chooses


@standin(max, min)
def stand_extreme(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and type(args[0]) is types.GeneratorType and id(args[0]) not in host.records:
        args = [gathered(host, args[0])]
        found = ROWS[function](host, f, args) if type(args[0]) is list else NotImplemented
        if found is not NotImplemented:
            return found
    found = None if kwargs else extreme_tensor(host, function, args)
    return call_python(host, f, function, args, kwargs) if found is None else found


def extreme_tensor(host: Any, function: Any, args: list[Any]) -> Any:
    """The tensor of one element that is the largest or the smallest; None where that is for CPython to tell."""
    if len(args) == 1 and type(args[0]) in (list, tuple) and id(args[0]) not in host.records:
        args = list(args[0])
    if not 2 <= len(args) <= MOST or not choices.are_alike(host, *args):
        return None
    best = args[0]
    for other in args[1:]:
        better = host.recorder.call(COMPARE[function], (other, best))
        best = choices.chosen(host, better, other, best)
        if best is None:
            return None
    return best


def gathered(host: Any, generator: Any) -> Any:
    """All that a generator gives, if that is compared without an error or a trace; else the same one by one."""
    items: list[Any] = []
    while True:
        item = run_native(next, generator, END)
        if item is FAILED:
            raise RAISED
        if item is END:
            return items
        items.append(item)
        if type(item) not in MIXED and not choices.are_alike(host, items[0], item):
            return itertools.chain(items, generator)
