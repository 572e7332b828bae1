"""Branches on data of which one side only raises: the graph tells whether the program goes on.

Where it does not, CPython runs the call from the start and raises as eager does (see `tensors/failing.py`). That is
possible only if the graph has changed nothing by then; otherwise the capture is made again, with a break.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from stator.code import raising
from stator.errors import Again
from stator.frame import Frame
from stator.guards import path as paths
from stator.shapes.scalar import TracedBool, TracedInt
from stator.shapes.unbacked import guessed
from stator.tensors.traced import TracedTensor
from stator.tensors.undoing import MOST_SAVED

ASSUMING = paths.const("branches that only raise")
WRITING = paths.const("writes behind branches that only raise")
LATE = paths.const("operations that may fail behind writes that cannot be undone")
CLAMPING = paths.const("bounds inside of their dimension")
CHECKED = "a check of data comes before this write to an input: whether it held is known once the graph has run"
MOST_ROUNDS = 256  # of a loop with such a branch: more, and perhaps nothing else ends it
PATIENCE = 2  # calls of an entry that CPython runs before another one is made
CONDITIONS = frozenset({TracedTensor, TracedBool})


def wanted(host: Any, f: Frame, traced: Any) -> bool | None:
    """The value that a condition has from now on; None if the branch is one like any other."""
    if ASSUMING in host.whole_paths or host.recorder.sub is not None:
        return None
    answer = raising.expected(f.info, f.lasti)
    if answer is not None:
        count_round(host, f)
    if type(traced) is TracedBool:
        return None if answer is None else told(host, traced, answer)
    sizes = traced._meta.size
    if answer is None or any(type(size) is TracedInt or size != 1 for size in sizes):
        return None
    call = host.recorder.call
    if not answer:
        traced = call(torch.logical_not, (traced,), {})
    elif traced._meta.dtype is not torch.bool:
        traced = call(torch.ne, (traced, 0), {})
    elif host.assumed is None:
        traced = call(torch.clone, (traced,), {})  # the program may write to its own
    host.assumed = traced if host.assumed is None else call(torch.logical_and, (host.assumed, traced), {})
    host.recorder.fallible = True
    return answer


def count_round(host: Any, f: Frame) -> None:
    """A loop that only an exception ends is not unrolled without end."""
    place = id(f.info), f.lasti
    rounds = host.assumed_at[place] = host.assumed_at.get(place, 0) + 1
    if rounds > MOST_ROUNDS and host.may_break:
        raise Again(ASSUMING)


def told(host: Any, condition: TracedBool, answer: bool) -> bool:
    """A condition on numbers that only data tells: the graph holds only if it is like this."""
    condition.symbols.assume(condition.expr if answer else ~condition.expr, "a condition of the program")
    host.recorder.numbers.write_checks()
    host.recorder.fallible = True
    return answer


def before_write(host: Any, traced: TracedTensor) -> None:
    """A write to an input behind a check: a break, unless little is written, which can be put back."""
    if not host.recorder.is_of_input(traced):
        return
    if WRITING in host.whole_paths:
        raise host.refuse("data-dependent-branch", CHECKED, function="Python")
    meta = traced._meta
    host.written_late += math.prod(map(guessed, meta.size)) * meta.dtype.itemsize
    if host.written_late > MOST_SAVED:
        raise Again(WRITING)


def check(host: Any) -> None:
    """The graph may run a second time, in CPython."""
    recorder = host.recorder
    if recorder.fallible and (host.locks or not recorder.repeatable):
        raise Again(ASSUMING)
    late = recorder.fails_late and not recorder.traces and host.may_break and LATE not in host.whole_paths
    if late and not recorder.can_be_undone():
        raise Again(LATE)


def rerun(function: Any, call: Any, otherwise: Any) -> Any:
    """What runs a call for which bounds of slices do not lie inside: CPython, then an entry that puts them there."""
    made: list[Any] = []
    failures = 0

    def elsewhere(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(otherwise(CLAMPING))
        return made[0](*args, **kwargs)

    passed = call.passed_on(elsewhere)

    def run(*values: Any) -> Any:
        nonlocal failures
        failures += 1
        return function(*values) if failures < PATIENCE else passed(*values)

    return run
