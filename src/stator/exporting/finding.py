"""Where a program first changes an outside container: the call is captured once more, with a look after each step."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

from stator.errors import StatorError
from stator.eval.machine import Machine
from stator.exporting.places import Origin
from stator.frame import Frame
from stator.guards.path import Path


class Found(StatorError):
    """The instruction that was looked for."""

    def __init__(self, origin: Origin) -> None:
        super().__init__("found")
        self.origin = origin


class Seeker(Machine):
    """Executes a program up to the instruction after which the container at a path is another one."""

    sought: Path
    seen = 0  # how many outside objects there were at the last look
    record: Any = None
    before: Any = None

    def instructions(self, frame: Frame) -> Any:
        ops = super().instructions(frame)

        def execute(unit: int, frame: Frame, arg: Any) -> Any:
            jump = ops[unit][0](frame, arg)
            if self.has_changed():
                raise Found(Origin(frame))
            return jump

        return [(partial(execute, unit), arg, following) for unit, (_, arg, following) in enumerate(ops)]

    def has_changed(self) -> bool:
        if self.record is None:
            records = self.world.records
            if len(records) == self.seen:
                return False
            self.seen = len(records)
            self.record = next((record for record in records.values() if record.path is self.sought), None)
            if self.record is None:
                return False
        if self.record.hollow is not None:
            return bool(self.record.hollow.operations())
        now = [id(part) for part in gc.get_referents(self.record.inner)]
        if self.before is None:
            self.before = now
        return now != self.before
