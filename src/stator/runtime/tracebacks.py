"""Tracebacks of exceptions that leave compiled code: the user's frames only."""

from __future__ import annotations

import os
from typing import Any

import stator
from stator.errors import StatorError

OWN = (os.path.dirname(stator.__file__) + os.sep, "<stator ")


def collapse(error: BaseException) -> None:
    """Take stator's own frames out of the traceback, unless the error is stator's."""
    if isinstance(error, StatorError):
        return
    kept: list[Any] = []
    entry: Any = error.__traceback__
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(OWN):
            kept.append(entry)
        entry = entry.tb_next
    for current, following in zip(kept, [*kept[1:], None], strict=True):
        if current.tb_next is not following:
            current.tb_next = following
    error.__traceback__ = kept[0] if kept else None
