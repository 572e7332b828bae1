"""Reads instructions by what they mean, the same for each Python version."""

from __future__ import annotations

from stator.code.decode import CodeInfo
from stator.code.terms311 import TERMS, Term

UNKNOWN: Term = ("unknown", None)


class Reader:
    """Reads the terms of instructions one after the other."""

    def __init__(self, info: CodeInfo, unit: int) -> None:
        self.info = info
        self.unit = unit  # of the next instruction
        self.last = unit  # of the one that was read from
        self.left: list[Term] = []  # of that one

    def next(self) -> Term:
        while not self.left:
            if self.unit >= len(self.info.ops):
                return UNKNOWN
            self.last = self.unit
            _, arg, self.unit = self.info.ops[self.last]
            row = TERMS.get(self.info.names[self.last])
            self.left = [UNKNOWN] if row is None else [*row(arg)]
        return self.left.pop(0)

    def is_at(self, unit: int) -> bool:
        """Whether the next term is the first one of the instruction at a unit."""
        return not self.left and self.unit == unit
