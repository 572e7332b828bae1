"""Branches on numbers that choose a float: one entry for all steps of a schedule, guarded only where that is needed."""

from __future__ import annotations

import math

import pytest
import torch

import stator
from tests.harness import check

STEPS = range(10)
BASE = 0.5


def twice(program, *more, **options):
    """Two compilations for ten steps, and results as in eager."""
    calls = [(torch.ones(3), step, *more) for step in STEPS]
    report = check(program, vary=calls, expect_recompiles=None, **options)
    assert report.gained("frames_captured") == 2, report.counts
    return report


def statement(x, step):
    if step < 4:
        rate = 0.1 * step / 4
    else:
        rate = 0.1 * 0.5 * (1 + math.cos(math.pi * (step - 4) / 10))
    return x - rate * x, rate


def expression(x, step):
    return x * (BASE if step <= 5 else BASE / step)


def returned(x, step):
    def rate(step):
        if step < 3:
            return BASE * (step + 1) / 4
        if step > 7:
            return 0.01
        progress = (step - 3) / 5
        weight = 0.5 * (1.0 + math.cos(math.pi * progress))
        return 0.01 + weight * (BASE - 0.01)

    return x - rate(step) * x


def several(x, step):
    rate, decay = 0.1, 1.0
    for milestone in (2, 5, 8):
        if step >= milestone:
            rate *= 0.1
            decay = -decay / 2
    return x * rate + decay


def between(x, step):
    rate = 0.1
    if 2 < step < 6:
        rate = max(0.5, step / 4.0)
    return x * rate


def floats(x, step):
    warmth = step / 10
    heat = 1.0 if warmth > 0.45 else abs(warmth - 2.0)
    return x * heat


def opposite(x, step):
    rate = 0.25
    if not step > 6:
        rate = -rate
    return x * rate


@pytest.mark.parametrize("program", [statement, expression, returned, several, between, floats, opposite])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_schedule_is_one_entry(program, backend):
    twice(program, backend=backend)


class Trainer(torch.nn.Module):
    """Numbers in attributes, one of which the program counts up."""

    def __init__(self):
        super().__init__()
        self.warmup, self.base, self.step = 4, 0.3, 0

    def rate(self):
        if self.step < self.warmup:
            return self.base * self.step / self.warmup
        return self.base / (self.step - self.warmup + 1) ** 0.5

    def forward(self, x):
        self.step += 1
        return x * self.rate()


def test_numbers_in_attributes():
    report = check(Trainer(), vary=[(torch.ones(3),) for _ in STEPS], expect_recompiles=None)
    assert report.gained("frames_captured") == 2, report.counts


def test_variables_of_an_enclosing_function():
    warmup, base = 4, 0.3

    def program(x, step):
        return x * (base * step / warmup if step < warmup else base)

    twice(program)


def test_one_side_has_no_value_for_other_steps():
    def program(x, step):
        rate = 1.0 if step < 5 else math.log(step - 4) + 1 / (step - 4)
        return x * rate

    twice(program)


def test_an_error_of_the_side_that_is_taken():
    def program(x, step):
        try:
            rate = 1.0 if step != 6 else 1.0 / (step - 6)
        except ZeroDivisionError:
            rate = 2.0
        return x * rate

    twice(program)


def compared(x, rate):
    return x + 1 if rate > 0.5 else x - 1


def spelt(x, rate):
    return x * 2, {str(rate): 1}


def rounded(x, rate):
    return x[: int(rate * 3)]


def keyed(x, rate):
    return x * {0.25: 2, 0.75: 3}[rate]


@pytest.mark.parametrize("then", [compared, spelt, rounded, keyed])
def test_where_the_float_itself_is_needed_there_is_one_entry_per_side(then):
    def program(x, step):
        return then(x, 0.25 if step < 5 else 0.75)

    report = check(program, vary=[(torch.ones(3), step) for step in STEPS], expect_recompiles=None)
    assert report.gained("frames_captured") <= 3, report.counts


def test_calculated_and_then_compared():
    def program(x, step):
        rate = 0.25 if step < 5 else 0.75
        return x + 1 if rate * 2 > 1 else x - 1

    report = check(program, vary=[(torch.ones(3), step) for step in STEPS], expect_recompiles=None)
    assert report.gained("frames_captured") <= 3, report.counts


@pytest.mark.parametrize("least", [0, None, "none"])
def test_sides_of_two_types_are_told_apart(least):
    def program(x, step):
        rate = 0.5 if step < 5 else least
        return x, rate

    check(program, vary=[(torch.ones(3), step) for step in STEPS], expect_recompiles=2)


def test_a_variable_that_only_one_side_has():
    def program(x, step):
        rate = 0.5
        if step > 5:
            extra = step / 2
            rate = rate + extra
        try:
            return x * rate, extra
        except UnboundLocalError:
            return x * rate, None

    check(program, vary=[(torch.ones(3), step) for step in STEPS], expect_recompiles=2)


def test_what_a_side_would_read_may_change():
    rates = {"late": 0.5}

    class Config:
        late = 0.5

    config = Config()
    config.scale = 2.0

    def program(x, step):
        rate = 1.0 if step < 5 else BASE * config.scale
        config.scale += 0.5
        return x * rate, rates

    check(program, vary=[(torch.ones(3), step) for step in STEPS], expect_recompiles=None)


def test_breaks_around_a_choice():
    def program(x, step):
        stator.graph_break()
        rate = 0.5 if step < 5 else step / 3
        stator.graph_break()
        return x * rate, rate

    check(program, vary=[(torch.ones(3), step) for step in STEPS], fullgraph=False, expect_recompiles=None,
          expect_breaks=None)  # fmt: skip


@pytest.mark.parametrize("place", range(1, 16))
def test_a_break_before_each_instruction(monkeypatch, place):
    monkeypatch.setenv("STATOR_FORCE_BREAK", str(place))
    check(expression, vary=[(torch.ones(3), step) for step in STEPS], fullgraph=False, expect_recompiles=None,
          expect_breaks=None)  # fmt: skip


def test_export_keeps_the_branch():
    def program(x):
        return x * (0.5 if x.shape[0] < 8 else 0.25)

    made = stator.export(program, (torch.ones(4),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=7)},))
    assert torch.equal(made.module()(torch.ones(6)), torch.ones(6) * 0.5)
