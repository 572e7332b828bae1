"""What an entry function returns at a break: the instruction to execute, and where each way out of it leads."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, NamedTuple

from stator import _entry
from stator.emit.emitter import Emitter
from stator.emit.plan import Source
from stator.frame import CALLER_HANDLES
from stator.runtime.continuation import Piece
from stator.runtime.excluded import is_excluded_below


class GoingOn(NamedTuple):
    """Where a break leads: what goes on for each edge, and who takes the frames below the instruction."""

    edges: Any  # Break -> tuple of Compiled, True or None, by edge
    owner: Any
    look: Any  # Break -> None, before anything is compiled: Again if the capture is to be another one


def tail(emitter: Emitter, found: Any, going_on: GoingOn | None) -> Source:
    """An expression for the Tail of a break; without `going_on` its values only are looked at."""
    names = [
        Source(f"{emitter.constant(sys.exception)}()") if value is CALLER_HANDLES else emitter.value(value)
        for value in found.values
    ]
    if going_on is None:
        return Source("None")
    step = state = ""
    for part in reversed(found.step()):
        items = [names[number] for number in part.items]
        if step:  # a name for it: as one expression, deep recursion would nest too much for the parser
            items += [emitter.bind(state, "inner"), step]
        items += [names[number] for number in part.stack]
        state = f"({', '.join(items)}{',' if items else ''})"
        step = function_source(emitter, part, names)
    make = emitter.constant(_entry.tail, "tail")
    edges = emitter.constant(going_on.edges(found), "edges")
    nobody = is_excluded_below(found.callee())  # CPython calls Python functions faster without the hook
    owner = emitter.constant(None if nobody else going_on.owner, "owner")
    kept = found.kept()
    carried = [name if number in kept else "None" for number, name in enumerate(names)]
    return Source(f"{make}({', '.join([step, state, edges, owner, *carried])})")


def function_source(emitter: Emitter, part: Piece, names: list[Source]) -> str:
    if part.constant is not None:
        return emitter.constant(part.constant, f"step_{part.name}" if part.name.isidentifier() else "step")
    cells = "".join(f"{names[number]}, " for number in part.closure)
    parts = [emitter.constant(part.code, "code"), emitter.constant(part.globals, "globals"), repr(part.name), "None"]
    return f"{emitter.constant(FunctionType, 'c_function')}({', '.join([*parts, f'({cells})'])})"
