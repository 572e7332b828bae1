"""Breaks on demand, for tests: `STATOR_FORCE_BREAK=n` breaks before the n-th instruction of every capture that can.

`STATOR_FORCE_BREAK=all` breaks before each of them: CPython then executes a function instruction by instruction.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from stator.code.decode import units
from stator.code.windows311 import WINDOWS
from stator.errors import unsupported
from stator.frame import Frame

FORCED: list[int] = []  # one number, or nothing
UNINTERESTING = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE", "POP_TOP"})


def force(setting: str | None) -> None:
    """Breaks come before the n-th instruction ("all": the first) from now on; None: only where they must."""
    FORCED[:] = [] if not setting else [1 if setting == "all" else int(setting)]


def forced_ops(ops: Any, frame: Frame) -> Any:
    """The instructions of a direct frame, which count those that can break."""
    made = units(frame.info.code)
    return [
        (partial(count if name in WINDOWS and name not in UNINTERESTING else execute, ops, unit), arg, following)
        for unit, ((name, _, _), (_, arg, following)) in enumerate(zip(made, ops, strict=True))
    ]


def execute(ops: Any, unit: int, frame: Frame, arg: Any) -> Any:
    return ops[unit][0](frame, arg)


def count(ops: Any, unit: int, frame: Frame, arg: Any) -> Any:
    world = frame.world
    world.breakable += 1
    if world.breakable == FORCED[0] and _in_body(frame):
        raise unsupported("forced-break", stack=world.stack())
    if not _in_body(frame):
        world.breakable -= 1
    return execute(ops, unit, frame, arg)


def _in_body(frame: Frame) -> bool:
    return frame.lasti >= frame.info.prefix


force(os.environ.get("STATOR_FORCE_BREAK"))
