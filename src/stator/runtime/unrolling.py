"""Loops are captured round by round; one that would make too large a graph goes on behind a break, again and again."""

from __future__ import annotations

from typing import Any

from stator.frame import Frame

MOST_OPERATIONS = 20_000  # in one graph
MOST_GRADIENTS = 8  # times that a loop calls backward: a whole epoch should not be one graph


def check(host: Any, f: Frame) -> None:
    """The loop of a frame begins another round."""
    iterator, place = id(f.stack[-1]), (f.path, f.lasti)  # not the object itself, which must end when its loop does
    size = host.recorder.graph._len
    known, gradients, operations = host.unrolled.get(place, (0, 0, 0))
    if known != iterator:
        host.unrolled[place] = iterator, host.backwards, size
    elif host.backwards - gradients >= MOST_GRADIENTS:
        raise refusal(host, f, f"{host.backwards - gradients} calls of backward")
    elif size > MOST_OPERATIONS and size > operations:
        raise refusal(host, f, f"{size - operations} operations")


def refusal(host: Any, f: Frame, count: str) -> Exception:
    refused: Exception = host.refuse("large-graph", function=f.code.co_qualname, count=count)
    return refused
