"""Functions that trace or profile the thread are no part of the program, wherever they are called."""

import sys
from collections import Counter

import pytest
import torch

import stator
from stator.report.events import recording


def noted(x, values):
    return sorted(values, key=lambda value: -value)[0] * x


def plain(x, values):
    return noted(x, values) + 1


def broken(x, values):
    y = noted(x, values)
    stator.graph_break()
    return noted(y, values) + len(values)


class Watch:
    """Notes what is called, and computes with tensors to do so."""

    def __init__(self, names):
        self.names, self.seen, self.sums = names, Counter(), []

    def __call__(self, frame, event, arg):
        if event == "call" and frame.f_code.co_name in self.names:
            self.seen[frame.f_code.co_name] += 1
            self.sums.append(float((torch.ones(2) * len(self.sums)).sum()))


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
@pytest.mark.parametrize("program", [plain, broken])
def test_watching_functions_are_not_captured(program, install):
    watch = Watch({"noted", "<lambda>", "sorted", "plain", "broken", "interpret", "miss"})
    compiled = stator.compile(program, backend="eager")
    x, values = torch.ones(3), [1, 3, 2]
    before = sys.gettrace() if install is sys.settrace else None
    with recording("graph", "capture", "skip", "error") as seen:
        install(watch)
        try:
            results = [compiled(x, values) for _ in range(3)]
        finally:
            install(before)
    assert all(torch.equal(result, program(x, values)) for result in results)
    assert not [event for event in seen if event.kind in ("skip", "error")]
    assert len([event for event in seen if event.kind == "capture"]) == (1 if program is plain else 2)
    assert watch.seen and watch.sums == [2.0 * i for i in range(len(watch.sums))]
    names = [name for event in seen if event.kind == "graph" for name in event.ops()]
    assert names and not any("ones" in name for name in names)


def test_a_function_that_watches_may_compile():
    """As a debugger does that evaluates what it is given."""
    compiled, results = stator.compile(broken, backend="eager"), []

    def watch(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "noted" and not results:
            results.append(compiled(torch.ones(2), [4]))

    sys.setprofile(watch)
    try:
        noted(torch.ones(1), [1])
    finally:
        sys.setprofile(None)
    assert torch.equal(results[0], broken(torch.ones(2), [4]))
    assert stator.stats()["graph_breaks"] == 1


def test_what_it_computes_after_it_has_run_a_compiled_function():
    """In the middle of stator's own work, where no hook is armed."""
    inner, seen = stator.compile(broken, backend="eager"), []

    def watch(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.endswith(("machine.py", "host.py")) and len(seen) < 20:
            inner(torch.ones(2), [4])
            seen.append(float((torch.ones(2) * 17).sum()))

    compiled = stator.compile(plain, backend="eager")
    before = sys.getprofile()
    with recording("graph") as graphs:
        sys.setprofile(watch)
        try:
            result = compiled(torch.ones(3), [1, 3, 2])
        finally:
            sys.setprofile(before)
    assert torch.equal(result, plain(torch.ones(3), [1, 3, 2])) and seen
    assert not [name for event in graphs for name in event.ops() if "ones" in name]
