"""Tracebacks of exceptions made during capture: the same places in the same code, without the values of that run.

Exceptions may share entries, as a group and what `split` makes of it do, and `except*` goes by that: so they do here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any

from stator import _frames

from .plan import Const, Heap, Plan, piece

Row = tuple[CodeType, dict[str, Any], int, int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """Entries of a traceback up to one that exists already, or that belongs to another stretch."""

    rows: tuple[Row, ...]
    rest: object  # a traceback, its stand-in, or None


@dataclass(frozen=True, eq=False, slots=True)
class Within:
    """The entry with that number of a stretch."""

    stretch: Stretch
    number: int


class Chains:
    """What stands for the tracebacks of one heap, whose frames live no longer for it; one has one stand-in."""

    def __init__(self) -> None:
        self.known: dict[int, object] = {}

    def of(self, traceback: TracebackType | None, resolved: Callable[[object], bool]) -> object:
        """The stand-in for a traceback, or what is there already."""
        if traceback is None or id(traceback) in self.known or resolved(traceback):
            return None if traceback is None else self.known.get(id(traceback), traceback)
        rows, numbers = [], []
        entry: TracebackType | None = traceback
        while entry is not None and id(entry) not in self.known and not resolved(entry):
            rows.append(row_of(entry))
            numbers.append(id(entry))
            entry = entry.tb_next
        stretch = Stretch(tuple(rows), self.of(entry, resolved))
        self.known[id(traceback)] = stretch
        self.known.update((number, Within(stretch, i)) for i, number in enumerate(numbers) if i)
        return stretch


def row_of(entry: TracebackType) -> Row:
    """Code, globals, instructions and line."""
    frame = entry.tb_frame
    return closed(frame.f_code), frame.f_globals, frame.f_lasti, entry.tb_lasti, entry.tb_lineno


def closed(code: CodeType) -> CodeType:
    """The code without free variables: a frame that never ran has no cells for them."""
    return code.replace(co_cellvars=code.co_cellvars + code.co_freevars, co_freevars=()) if code.co_freevars else code


def chained(entry: TracebackType | None, rows: tuple[Row, ...]) -> TracebackType | None:
    """Run time: these entries in front of a traceback."""
    for code, names, last, lasti, line in reversed(rows):
        entry = TracebackType(entry, _frames.make_frame(code, names, last), lasti, line)
    return entry


def entry_at(traceback: TracebackType | None, number: int) -> TracebackType | None:
    """Run time: the entry so far behind this one."""
    for _ in range(number):
        traceback = traceback.tb_next if traceback is not None else None
    return traceback


def build_stretch(obj: Stretch, solid: type, heap: Heap) -> Plan:
    return Plan(piece("{0}({1}, {2})", Const(chained), obj.rest, Const(obj.rows)))


def build_within(obj: Within, solid: type, heap: Heap) -> Plan:
    return Plan(piece("{0}({1}, {2})", Const(entry_at), obj.stretch, obj.number))


ROWS: dict[type, Any] = {Stretch: build_stretch, Within: build_within}
