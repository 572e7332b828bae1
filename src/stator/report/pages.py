"""The index of the pages about breaks, made from the table: `python -m stator.report.pages docs/breaks`."""

from __future__ import annotations

import sys
from pathlib import Path

from ..breaks import BREAKS

HEADER = """# Breaks

What keeps a program from being captured as one graph. The id is in the error, in the log (`STATOR_LOGS=graph_breaks`)
and in the report of `stator.explain`; its page has the cause, a program that shows it, and how to remove it. Every
program on these pages is a test.

| id | what it is | what to do |
|---|---|---|
"""


def index() -> str:
    """The text of `docs/breaks/README.md`."""
    rows = (f"| [{row.id}]({row.id}.md) | {row.title} | {row.remedy} |" for row in BREAKS.values())
    return HEADER + "\n".join(rows) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) / "README.md").write_text(index())
