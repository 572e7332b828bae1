"""The first test of a loop that data ends, where the program knows its condition: `while not done.all()`.

The capture goes on with it, as all rounds may be known. If the next test is a break, the first one is better a break
as well where nothing but tensors of constants comes before it: then all rounds have one graph.
"""

from __future__ import annotations

from typing import Any

from stator.code.loops import tests_one_loop
from stator.eval.machine import Machine, Place, code_info
from stator.frame import Frame
from stator.runtime.continuation import origin_of
from stator.runtime.unrolling import Loops, here
from stator.tensors import constants
from stator.tensors.traced import TracedTensor


def known(host: Any, f: Frame, value: TracedTensor) -> bool | None:
    """What a condition is that the program knows; None if it is unknown, or a break here is better."""
    if not here(f).isdisjoint(host.loops.tests):
        return None
    answer = constants.truth(host.recorder, value)
    machine = host.machine
    if answer is not None and host.may_break and machine.first_test is None and constants.are_all_made(host.recorder):
        machine.first_test = Place(f.path, 0, f.code, f.lasti, f.direct)
    return answer


def learn(loops: Loops, machine: Machine | None, place: Place | None) -> bool:
    """Data decides a branch at a place; whether the capture had better end at an earlier test of the same loop."""
    first = machine.first_test if machine is not None else None
    if first is None or place is None or not first.direct or (first.path, first.code) != (place.path, place.code):
        return False
    test = origin_of(first.code, first.unit)
    if test in loops.tests or not tests_one_loop(code_info(first.code), first.unit, place.unit):
        return False
    loops.tests.add(test)
    return True
