"""Random programs of all kinds of statements on tensors and Python objects: `source(seed)` gives the text of one.

A program is a function `main(x, y, n, items, box, w, s)` that uses what `PRELUDE` defines. It always ends;
it may raise.
"""

from __future__ import annotations

import random
import re
from typing import Any

from tests.breaks import changing, flow, language, library, statements, views
from tests.breaks.statements import FLOW, LEAVE

MARK = re.compile(r"\$(\w)")
TABLES = [statements, changing, language, flow, views, library]
PRELUDE: list[str] = []
VARIABLES: dict[str, list[str]] = {}
EXPRESSIONS: dict[str, list[list[str]]] = {}
SHALLOW: dict[str, list[str]] = {}
SIMPLE: list[list[str]] = []
BLOCKS: list[list[str]] = []


def use(tables: list[Any]) -> None:
    """Programs are made of these from now on; a table that comes twice is used more."""
    kinds = sorted({kind for table in tables for kind in table.EXPRESSIONS})
    PRELUDE[:] = dict.fromkeys(table.PRELUDE for table in tables)
    for table in tables:
        VARIABLES.update(table.VARIABLES)
    for kind in kinds:
        EXPRESSIONS[kind] = [table.EXPRESSIONS[kind].split() for table in tables if kind in table.EXPRESSIONS]
        ways = [way for group in EXPRESSIONS[kind] for way in group]
        SHALLOW[kind] = [way for way in ways if not any(f"${other}" in way for other in kinds)]
    SIMPLE[:] = [table.SIMPLE for table in tables]
    BLOCKS[:] = [table.BLOCKS for table in tables]


use(TABLES)


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = self.random.randrange(4, 13)

    def fill(self, template: str, depth: int = 0) -> str:
        return MARK.sub(lambda match: self.one(match[1], depth), template)

    def one(self, kind: str, depth: int) -> str:
        """A variable, or an expression that is not too deep."""
        if kind in VARIABLES:
            return self.random.choice(VARIABLES[kind])
        ways = self.random.choice(EXPRESSIONS[kind]) if depth <= 2 else SHALLOW[kind]
        return self.fill(self.random.choice(ways), depth + 1).replace("&", " ")

    def any(self, tables: list[list[str]]) -> str:
        return self.random.choice(self.random.choice(tables))

    def block(self, indent: str, depth: int, where: str) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 4)):
            lines += self.statement(indent, depth, where)
        return lines

    def statement(self, indent: str, depth: int, where: str) -> list[str]:
        self.left -= 1
        draw = self.random.random()
        if self.left > 0 and depth < 4 and draw < 0.4:
            return self.compound(indent, depth, where)
        if where == "loop" and draw < 0.5:
            return [indent + self.fill(self.random.choice(FLOW))]
        if where != "body" and draw > 0.97 and depth:
            return [indent + self.fill(self.random.choice(LEAVE))]
        return [indent + self.fill(self.any(SIMPLE))]

    def compound(self, indent: str, depth: int, where: str) -> list[str]:
        lines: list[str] = []
        for row in self.any(BLOCKS).split("\n"):
            text = row.lstrip()
            inner = indent + row[: len(row) - len(text)]
            if text in ("@", "@loop", "@body"):
                lines += self.block(inner, depth + 1, "body" if where == "body" else text[1:] or "plain")
            else:
                lines.append(inner + self.fill(text))
        return lines

    def program(self) -> str:
        body = ["def main(x, y, n, items, box, w, s):", "    global COUNT, TABLE, SEEN, EXTRA, NUMBER, METER"]
        body += [
            "    t0, t1, t2 = x + 1, y, x * y",
            "    i0, i1, i2, w0 = n, 1, 2, w * 2",
            "    l0, l1 = [x, 1], list(items)",
        ]
        body += ["    d0, d1 = {'a': n, 'b': y}, {}", "    b0, b1 = Box(x), Special(y, n, name='calm')"]
        while self.left > 0:
            body += self.statement("    ", 0, "plain")
        body.append("    return t0, t1, t2, i0, i1, i2, l0, l1, d0, d1, b0, b1, x, y, w, w0, s")
        return "\n".join(body) + "\n"


def source(seed: int) -> str:
    """The text of the function of program number `seed`; it can be compiled."""
    while True:
        text = Writer(seed).program()
        try:
            compile(text, "<program>", "exec")
        except SyntaxError:
            seed += 1_000_003
        else:
            return text
