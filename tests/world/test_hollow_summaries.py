"""Containers that grow, of which the program wants the sum, the end or each part: numbers that vary, not contents."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import stator
from tests.world.test_hollow import SOME, Holder, T, differ, entries_of


def average(holder: Any, x: Any) -> Any:
    holder.log.append(x.sum().item())
    return x * 2, sum(holder.log) / len(holder.log), min(holder.log), max(holder.log)


def window(holder: Any, x: Any) -> Any:
    holder.log.append(x)
    return torch.stack(holder.log[-3:]).mean(0), len(holder.log)


def averages(holder: Any, x: Any) -> Any:
    for name in holder.logs:
        holder.logs[name].append(x.sum().item())
    return x * 2, {name: sum(values) / len(values) for name, values in holder.logs.items()}


@pytest.mark.parametrize(("program", "graphs"), [(average, 1), (window, 4), (averages, 1)])
def test_summaries_of_what_grows(program, graphs):
    """A few compilations, however long it gets; by then it is one entry that fits."""
    compiled = stator.compile(program, backend="eager")
    ours, theirs = (Holder(log=[], logs={"a": [], "b": []}) for _ in range(2))
    for i in range(12):
        if i == 5:
            before = stator.stats()["frames_captured"]
        assert repr(compiled(ours, T * i)) == repr(program(theirs, T * i))
        assert repr(ours) == repr(theirs)
    assert stator.stats()["frames_captured"] == before
    assert stator.stats()["graphs"] <= graphs and stator.stats()["graph_breaks"] == 0


class Tracked(float):
    def __radd__(self, other: Any) -> Any:
        return 100.0


def test_sums_are_those_of_plain_numbers_only():
    def program(holder):
        return sum(holder.x), max(holder.x)

    compiled = stator.compile(program, backend="eager")
    for values in (
        [1.0] * SOME,
        [2.5] * SOME,
        [*range(SOME)],
        [True] * SOME,
        [1.0, Tracked(3.0)] * SOME,
        [T, T] * SOME,
    ):
        if values[0] is T:
            values = values[:1]
        assert repr(compiled(Holder(x=values))) == repr(program(Holder(x=values)))


def test_a_break_in_a_loop_over_a_dict():
    def program(holder, x):
        for name, values in holder.logs.items():
            values.append(1)
            stator.graph_break()
            x = x + len(values) + len(name)
        return x

    compiled = stator.compile(program, backend="eager")
    ours, theirs = (Holder(logs={"a": [], "bc": []}) for _ in range(2))
    for _ in range(4):
        assert repr(compiled(ours, T)) == repr(program(theirs, T))
        assert repr(ours) == repr(theirs)


def test_a_generator_over_a_dict_that_is_returned():
    def program(holder):
        holder.logs["a"].append(1)
        return (len(values) for values in holder.logs.values())

    compiled = stator.compile(program, backend="eager")
    ours, theirs = (Holder(logs={"a": [], "bc": []}) for _ in range(2))
    for _ in range(4):
        assert list(compiled(ours)) == list(program(theirs))


def test_a_key_that_is_new_in_a_loop():
    def program(holder):
        for name in holder.logs:
            holder.logs[name].append(1)
            if len(holder.logs[name]) == 4:
                holder.logs["new"] = []
        return len(holder.logs)

    differ(program, lambda: [Holder(logs={"a": [1], "b": []})], calls=5)


class Base:
    def value(self, x: Any) -> Any:
        return x + 1


class Derived(Base):
    def value(self, x: Any) -> Any:
        return super().value(x) * 2

    def kept(self, x: Any) -> Any:
        return [super(Derived, self).value(x), (lambda: self)() is self and super().value(x)]


def test_super_does_not_look_at_variables():
    def program(holder, x):
        log = holder.log
        log.append(1)
        return Derived().value(x), Derived().kept(x), len(log)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    ours, theirs = Holder(log=[]), Holder(log=[])
    for _ in range(6):
        assert repr(compiled(ours, T)) == repr(program(theirs, T))
    assert entries_of(compiled) <= 3
