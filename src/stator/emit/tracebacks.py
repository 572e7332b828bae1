"""Tracebacks of exceptions made during capture: the same places in the same code, without the values of that run."""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Any

from stator import _frames

Row = tuple[CodeType, dict[str, Any], int, int, int]


def rows_of(traceback: TracebackType | None, known: TracebackType | None = None) -> tuple[Row, ...]:
    """Code, globals, instructions and line of each entry in front of those that exist already."""
    rows = []
    while traceback is not known and traceback is not None:
        frame = traceback.tb_frame
        rows.append((closed(frame.f_code), frame.f_globals, frame.f_lasti, traceback.tb_lasti, traceback.tb_lineno))
        traceback = traceback.tb_next
    return tuple(rows)


def closed(code: CodeType) -> CodeType:
    """The code without free variables: a frame that never ran has no cells for them."""
    return code.replace(co_cellvars=code.co_cellvars + code.co_freevars, co_freevars=()) if code.co_freevars else code


def restore(error: BaseException, rows: tuple[Row, ...]) -> None:
    """Put these entries in front of the traceback of the exception."""
    entry = error.__traceback__
    for code, names, last, lasti, line in reversed(rows):
        entry = TracebackType(entry, _frames.make_frame(code, names, last), lasti, line)
    error.__traceback__ = entry
