"""No reference is lost or gained, and CPython's debug allocator finds nothing."""

from __future__ import annotations

import functools
import gc
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path as File
from typing import Any

import torch

from stator._entry import Compiled
from stator.guards import GuardSet, TensorSpec, arg, const, snapshot
from stator.guards.check import EQ, KEYS, LEN, NO_HOOKS, TENSOR, TYPE_IS

CALLS = 10_000
ATTEMPTS = 5


class Box:
    pass


def everything() -> tuple[GuardSet, list[Any], tuple[Any, ...]]:
    """Guards with every kind of load, and arguments that fulfil them."""
    box = Box()
    marks = [object() for _ in range(8)]
    box.items = [marks[0], (marks[1],)]  # type: ignore[attr-defined]
    box.table = {"k": marks[2], 5: marks[3]}  # type: ignore[attr-defined]
    box.bag = {marks[4]}  # type: ignore[attr-defined]
    box.net = torch.nn.Linear(2, 2)  # type: ignore[attr-defined]

    def closure() -> Any:
        return marks

    x = torch.zeros(2, 3)
    guards = GuardSet()
    guards.call_shape(3, ("late",))
    guards.state(snapshot())
    root = arg(0)
    guards.add(root, TYPE_IS, Box)
    guards.add(root.attr("items"), LEN, 2)
    guards.add(root.attr("table"), KEYS, ("k", 5))
    guards.add(root.attr("net"), NO_HOOKS)
    guards.add(arg(1), TENSOR, TensorSpec.of(x))
    guards.add(arg(3), EQ, "late")
    loads = [
        root.attr("items").item(0), root.attr("items").item(1).item(0), root.attr("table").entry("k"),
        root.attr("table").key_at(1), root.attr("bag").iter_at(0), root.attr("net").attr("_parameters").entry("weight"),
        root.cls(), root.fields(), arg(1), arg(1).get("grad"), arg(2).get("__closure__").item(0).cell(),
        arg(2).part("code", operator.attrgetter("__code__")), const(marks).item(7), root.cls().class_item("__module__"),
    ]  # fmt: skip
    guards.distinct([arg(0), arg(1), loads[5], loads[0]])
    return guards, loads, (box, x, closure, "late")


def growth(run: Callable[[], Any], watched: Sequence[Any] = (), calls: int = CALLS) -> int:
    """How many blocks or references to one of the watched calls leave behind.

    A leak shows in each attempt; what other threads and caches do meanwhile does not.
    """

    def counts() -> list[int]:
        gc.collect()
        return [sys.getallocatedblocks(), *map(sys.getrefcount, watched)]

    least = calls
    for _ in range(ATTEMPTS):
        before = counts()
        for _ in range(calls):
            run()
        least = min(least, max(abs(now - then) for now, then in zip(counts(), before, strict=True)))
        if least < calls // 100:
            break
    return least


def test_a_leak_is_seen() -> None:
    kept: list[Any] = []
    assert growth(lambda: kept.append(object())) >= CALLS * 9 // 10
    calls = iter(range(10**9))
    assert growth(lambda: next(calls) % 4 or kept.append(object())) >= CALLS // 100  # other caches may shrink meanwhile
    one = object()
    watched = growth(lambda: next(calls) % 50 or kept.append(one), [one])
    assert watched >= CALLS // 100


def test_no_leak() -> None:
    guards, loads, args = everything()
    program = guards.compile(loads)
    compiled = Compiled(print, lambda args, kwargs: "miss")
    compiled.append(program, lambda *values: values[3])
    compiled_builtin = Compiled(print, lambda args, kwargs: "miss")
    compiled_builtin.append(program, functools.partial(first_of))
    first = program.run(args, ("late",))
    assert isinstance(first, list)
    watched = [*first, *args, "late"]
    for run in (
        lambda: program.run(args, ("late",)),
        lambda: program.run((args[0], args[1].t(), *args[2:]), ("late",)),
        lambda: compiled(*args[:3], late="late"),
        lambda: compiled(*args[:3], late="early"),
        lambda: compiled_builtin(*args[:3], late="late"),
        lambda: guards.first_failure(args, ("late",)),
    ):
        run()
        number = CALLS if "first_failure" not in run.__code__.co_names else 2000
        assert growth(run, watched, number) < number // 100


def first_of(*values: Any) -> Any:
    return values[0]


def test_no_leak_of_programs() -> None:
    guards, loads, args = everything()
    assert growth(lambda: guards.compile(loads).run(args, ("late",)), calls=2000) < 20


def test_malformed_programs_are_refused() -> None:
    from array import array

    import pytest

    from stator._entry import OPCODES, GuardProgram

    end = [OPCODES["END"], 0, 0, 0, 0]
    for code, keys, targets in (
        ([], [], []),
        ([OPCODES["ARG"], 0, 0, 0, 0], [None], []),
        ([OPCODES["ARG"], 0, 9, 0, 0, *end], [None, None], []),
        ([OPCODES["TAG"], 0, 0, 0, 0, *end], [None, None], []),
        ([OPCODES["TAG"], 0, 0, 0, 0, *end], [None, None], [7]),
        ([99, 0, 0, 0, 0, *end], [None, None], []),
        (end, [], []),
        ([OPCODES["LEN"], 0, 0, 0, 0, *end], ["x", None], []),
        ([OPCODES["TENSOR"], 0, 0, 0, 0, *end], ["x", None], []),
        ([OPCODES["KEY"], 0, 0, 0, 0, *end], [[], None], []),
        ([OPCODES["DISTINCT"], 0, 0, 0, 0, *end], [((0, 5), (), True), None], []),
    ):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            GuardProgram(array("i", code), keys, targets, 1, (), [])


def test_debug_allocator() -> None:
    """The other tests once more, in a process whose allocator checks every block, with the twin comparing each run."""
    if os.environ.get("STATOR_DEBUG_GUARDS"):
        return
    here = File(__file__).parent
    names = ("test_checks.py", "test_skipping.py", "test_compiled.py", "test_accessors.py", "test_mortal.py")
    tests = [str(here / name) for name in names]
    environment = {**os.environ, "PYTHONMALLOC": "debug", "STATOR_DEBUG_GUARDS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--noconftest", *tests],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
