"""Decodes a code object once into what the interpreter dispatches on."""

from __future__ import annotations

import dis
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from stator.code import tables311 as tables

Handler = Callable[[Any, Any], "int | None"]
Op = tuple[Handler, Any, int]  # handler, resolved argument, next unit


class Protected(NamedTuple):
    """One row of the exception table, in code units."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class CodeInfo:
    """Everything about one code object that does not change between its frames."""

    __slots__ = (
        "_names",
        "_ops",
        "_protected",
        "argcount",
        "count",
        "fast",
        "first_free",
        "forms",
        "handlers",
        "joins",
        "needed",
        "prefix",
        "raw",
        "reference",
        "silent",
        "slots",
    )

    def __init__(self, code: CodeType, handlers: dict[str, Handler], died: Callable[[Any], Any] | None = None) -> None:
        self.reference = weakref.ref(code, died)  # weak: this lives as long as the code object, not the other way round
        self.slots = (
            code.co_varnames + tuple(n for n in code.co_cellvars if n not in code.co_varnames) + code.co_freevars
        )
        self.fast = len(self.slots)
        self.first_free = self.fast - len(code.co_freevars)
        self.argcount = (
            code.co_argcount
            + code.co_kwonlyargcount
            + bool(code.co_flags & 0x04)  # *args
            + bool(code.co_flags & 0x08)  # **kwargs
        )
        self.handlers = handlers
        self.raw = code.co_code
        self.count = len(self.raw) // 2
        self.forms: list[list[Op] | None] = [None, None, None]  # decoded so far, see eval/forms.py
        self.joins: dict[tuple[int, bool], int | None] = {}  # see code/joining.py
        self.needed: list[int] | None = None  # see code/needed.py
        self.prefix = 0  # units in front of the user's own, in a resumed function
        self._names: list[str] | None = None
        self._ops: list[Op] | None = None
        self._protected: tuple[Protected, ...] | None = None

    @property
    def code(self) -> CodeType:
        code = self.reference()
        assert code is not None, "whoever asks runs it"
        return code

    def op(self, name: str, arg: int, following: int) -> Op:
        """What a row of `units` is executed as."""
        resolve = tables.ARGUMENTS.get(name)
        return self.handlers[name], arg if resolve is None else resolve(self, arg, following), following

    @property
    def ops(self) -> list[Op]:
        """All instructions, for those who read the code; a frame decodes what it comes to."""
        if self._ops is None:
            self._ops = [self.op(*row) for row in units(self.code)]
        return self._ops

    @property
    def names(self) -> list[str]:
        if self._names is None:
            self._names = [name for name, _, _ in units(self.code)]
        return self._names

    @property
    def protected(self) -> tuple[Protected, ...]:
        """The exception table."""
        if self._protected is None:
            self._protected = tuple(exception_table(self.code))
        return self._protected

    def unprotect(self) -> None:
        """Its instructions are no longer what runs."""
        self._protected = ()

    def cell_slots(self) -> Iterator[int]:
        """The slots of variables that are shared with other functions."""
        shared = {*self.code.co_cellvars, *self.code.co_freevars}
        return (slot for slot, name in enumerate(self.slots) if name in shared)

    def handler(self, unit: int) -> Protected | None:
        """The innermost protected range that holds the instruction."""
        for row in self.protected:
            if row.start <= unit < row.end:
                return row
        return None


def unit_at(raw: bytes, unit: int) -> tuple[str, int, int]:
    """The row of `units` for one code unit."""
    opcode, arg = raw[2 * unit], raw[2 * unit + 1]
    if unit and raw[2 * unit - 2] == dis.EXTENDED_ARG:
        return unit_at(raw, unit - 1)
    while opcode == dis.EXTENDED_ARG:
        unit += 1
        opcode, arg = raw[2 * unit], arg << 8 | raw[2 * unit + 1]
    name = dis.opname[opcode]
    return name, arg, unit + 1 + tables.CACHES.get(name, 0)


def units(code: CodeType) -> list[tuple[str, int, int]]:
    """(name, argument, next unit) for each code unit; prefixes and caches stand for the instruction they belong to."""
    return units_of(code.co_code)


@lru_cache(1024)
def units_of(raw: bytes) -> list[tuple[str, int, int]]:
    result: list[tuple[str, int, int]] = []
    pending, extended = 0, 0
    count = len(raw) // 2
    skip_until = 0
    for unit in range(count):
        opcode, low = raw[2 * unit], raw[2 * unit + 1]
        name = dis.opname[opcode]
        if unit < skip_until:
            result.append(("CACHE", 0, unit + 1))
            continue
        if name == "EXTENDED_ARG":
            extended = (extended << 8) | low
            pending += 1
            continue
        arg = (extended << 8) | low
        skip_until = unit + 1 + tables.CACHES.get(name, 0)
        result.extend([(name, arg, skip_until)] * (pending + 1))
        pending = extended = 0
    return result


def exception_table(code: CodeType) -> list[Protected]:
    """The rows of co_exceptiontable: numbers in base 64, most significant digit first."""
    digits = iter(code.co_exceptiontable)

    def number(first: int) -> int:
        value = first & 63
        while first & 64:
            first = next(digits)
            value = value << 6 | first & 63
        return value

    rows = []
    for first in digits:
        start = number(first)
        length, target, flags = (number(next(digits)) for _ in range(3))
        rows.append(Protected(start, start + length, target, flags >> 1, bool(flags & 1)))
    return rows
