"""Breaks: what is compiled around them, how often, and that nothing else can be seen of them."""

from __future__ import annotations

import itertools
import traceback
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

X = torch.arange(4.0)


def counts(*names: str) -> tuple[int, ...]:
    stats = stator.stats()
    return tuple(stats[name] for name in names)


def broken(fn: Any, *args: Any, **options: Any) -> Any:
    """Compared with eager over three calls; breaks must be breaks, not skipped frames."""
    report = check(fn, *args, calls=3, fullgraph=False, expect_breaks=None, expect_recompiles=None, **options)
    assert counts("frames_skipped") == (0,)
    return report


def test_a_branch_on_data_compiles_both_sides():
    def program(x, sign):
        y = x * sign + 1
        return y.sin() + 1 if y.sum() > 0 else y.cos() + 1

    calls = [(X, 1.0), (X, -1.0), (X, 1.0), (X, -1.0)]
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    compiled = stator.compile(program, backend="eager")
    stator.reset()
    for x in (X, -X, X, -X):
        compiled(x, 2.0)
    assert counts("graphs", "graph_breaks", "recompiles") == (3, 1, 0)


def innermost(x: Any) -> Any:
    y = x.sin()
    stator.graph_break()
    return y + 1


def middle(x: Any) -> Any:
    return innermost(x * 2).cos() * 3


def test_all_frames_go_on_in_one_graph():
    broken(lambda x: middle(x + 1) - 1, X)
    assert counts("graphs", "graph_breaks") == (2, 1)


def test_a_property_goes_on():
    class Box:
        def __init__(self, x):
            self.x = x

        @property
        def doubled(self):
            y = self.x * 2
            stator.graph_break()
            return y + 1

    broken(lambda x: Box(x + 1).doubled.sin(), X)
    assert counts("graphs") == (2,)


@pytest.mark.parametrize("rounds", [1, 2, 30])
def test_loops_are_compiled_once(rounds):
    def program(x):
        outs = []
        for _ in range(rounds):
            x = x.sin()
            if x.sum() > 1e9:
                break
            outs.append(x)
        return outs[-1], len(outs)

    broken(program, X)
    assert stator.stats()["graphs"] <= 5


def test_a_long_loop_does_not_nest():
    def program(x):
        n = 0
        while x.sum() < 3000:
            x = x + 1
            n += 1
        return x, n

    compiled = stator.compile(program, backend="eager", options={"recompile_limit": 4})
    assert torch.equal(compiled(torch.zeros(1))[0], torch.full((1,), 3000.0))


def test_a_loop_over_tensors():
    def program(xs):
        total = 0
        for x in xs:
            total = total + x.cos()
            stator.graph_break()
        return total

    broken(program, [X + i for i in range(20)])
    assert stator.stats()["graphs"] <= 4


def test_frames_below_a_break_are_compiled():
    def key(x):
        return (x.sin() + 1).sum().item()

    def program(xs):
        return sorted(xs, key=key)[0].cos() * 2

    broken(program, [X, -X, X * 2])
    assert counts("graphs") == (2,)


class Stop:
    def __call__(self, x: Any) -> bool:
        return bool(x.max() == 0)


@stator.disable(recursive=False)
def apply(fn: Any, x: Any) -> Any:
    return fn(x)


def test_a_break_inside_native_code_below():
    broken(lambda x: (apply(Stop(), x + 1), x * 2), X)


def test_generators_live_across_breaks_and_leave():
    def numbers(x):
        try:
            for i in range(4):
                got = yield x * i
                if got is not None:
                    x = x + got
        finally:
            print("closed")

    def program(x):
        made = numbers(x)
        first = next(made)
        stator.graph_break()
        second = made.send(2.0)
        return first, second, list(made)

    broken(program, X)

    @stator.compile(fullgraph=True, backend="eager")
    def gives(x):
        made = numbers(x + 1)
        return next(made), made

    first, made = gives(X)
    assert torch.equal(first, torch.zeros(4)) and torch.equal(made.send(1.0), X + 2)
    assert len(list(made)) == 2


def test_a_break_comes_before_what_cannot_be_rebuilt():
    def program(x):
        y = x * 3
        view = memoryview(b"abc")
        z = y.sin()
        if z.sum() > 0:
            z = z + 1
        return z + len(view)

    broken(program, X)
    assert counts("graphs")[0] >= 2


def deep(x: Any) -> Any:
    y = x + 1
    stator.graph_break()
    raise ValueError("deep", y.shape)


def outer(x: Any) -> Any:
    z = x * 2
    return deep(z)


def test_tracebacks_show_the_users_frames():
    def lines(fn):
        with pytest.raises(ValueError) as raised:
            fn(X)
        return [(row.name, row.lineno) for row in traceback.extract_tb(raised.value.__traceback__)][1:]

    compiled = stator.compile(outer, backend="eager")
    assert lines(compiled) == lines(outer) == lines(compiled)


def test_a_caller_inside_a_handler_keeps_its_exception():
    def program(x):
        try:
            raise KeyError("inner")
        except KeyError:
            y = x + 1
            stator.graph_break()
            y = y * 2
        return y

    compiled = stator.compile(program, backend="eager")
    compiled(X)
    for _ in range(2):
        try:
            raise OSError("outer")
        except OSError:
            compiled(X)
            with pytest.raises(OSError, match="outer"):
                raise


def test_each_compile_has_its_own_entries():
    def program(x):
        y = x + 1
        stator.graph_break()
        return y * 2

    first, second = (stator.compile(program, backend="eager") for _ in range(2))
    first(X)
    assert counts("graphs") == (2,)
    second(X)
    assert counts("graphs") == (4,)
    first(X), second(X)
    assert counts("graphs", "recompiles") == (4, 0)


def test_skipped_under_one_condition_captured_under_another():
    def below(x, flag):
        return x.sin() + 1 if flag else None

    def program(x, flag):
        return apply(lambda t: below(t, flag), x)

    compiled = stator.compile(program, backend="eager")
    assert compiled(X, False) is None
    before = counts("graphs")
    assert torch.equal(compiled(X, True), X.sin() + 1)
    assert counts("graphs") > before
    assert compiled(X, False) is None


def test_training_through_a_break():
    def program(x, w):
        y = x @ w
        stator.graph_break()
        return y.relu().sum()

    w = torch.ones(4, 2, requires_grad=True)
    broken(program, X, w, backward=True, backend="aot_eager", tolerance=1e-6)


def test_names_that_exec_adds() -> None:
    """The frame behind a break is another one: what was added to `locals()` would not be there."""

    def executes(x: Any) -> Any:
        exec("extra = 3")
        y = x + 1
        stator.graph_break()
        return y, sorted(locals()), eval("extra")

    def writes(x: Any) -> Any:
        names = locals()
        names["extra"] = 4
        stator.graph_break()
        return x + 1, sorted(locals()), names is locals()

    def reads(x: Any) -> Any:
        names = sorted(locals())
        stator.graph_break()
        return x + 1, names

    for program, breaks in ((executes, 0), (writes, 0), (reads, 1)):
        check(program, torch.ones(2), fullgraph=False, expect_breaks=breaks, expect_recompiles=None)


def runs(x: Any) -> Any:
    x = x * 2
    for key, run in itertools.groupby([1, 1, 2]):
        x = x + key * len(list(run))
        if x.sum() > 1000:
            break
        x = x.sin() + x.cos() + x.exp() + x.tanh() + x.sigmoid()
    return x


def test_the_break_comes_before_a_tuple_of_what_cannot_be_rebuilt() -> None:
    with events.recording("skip") as skips:
        report = check(runs, torch.ones(3), fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert not skips
    assert report.gained("graphs")
