"""`max` and `min` of what a generator gives: numbers that only data tells are compared by the graph."""

from __future__ import annotations

import itertools
import types
from typing import Any

from stator._frames import FAILED
from stator._frames import native as run_native
from stator.frame import RAISED, Frame
from stator.native.callers import call_python
from stator.native.rows import standin
from stator.runtime.symbolic_host import MIXED, ROWS

END = object()


@standin(max, min)
def stand_extreme(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and type(args[0]) is types.GeneratorType and id(args[0]) not in host.records:
        args = [gathered(args[0])]
        found = ROWS[function](host, f, args) if type(args[0]) is list else NotImplemented
        if found is not NotImplemented:
            return found
    return call_python(host, f, function, args, kwargs)


def gathered(generator: Any) -> Any:
    """All that a generator gives, if that is numbers, which are compared without a trace; else the same one by one."""
    items: list[Any] = []
    while True:
        item = run_native(next, generator, END)
        if item is FAILED:
            raise RAISED
        if item is END:
            return items
        items.append(item)
        if type(item) not in MIXED:
            return itertools.chain(items, generator)
