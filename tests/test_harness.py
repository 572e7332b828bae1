"""The instrument itself: each comparison must be able to fail, and must not fail on a compiler that is right."""

import functools
import logging
import random
import sys
import warnings
from collections import OrderedDict, deque

import numpy
import pytest
import torch

from tests.copies import World
from tests.harness import check
from tests.image import image

LOG = logging.getLogger("program")
counter = 0
table = {"a": [1]}


def right(fn, **options):
    """The compiler that changes nothing."""
    return fn


def wrong(change):
    """A compiler whose code calls `change(fn, *args, **kwargs)` instead of `fn`."""
    return lambda fn, **options: functools.partial(change, fn)


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Bag:
    def __init__(self, **items):
        self.__dict__.update(items)


def add(x, y):
    return x + y


def identity(x):
    return x


def touch(x):
    return len(x)


def on_result(change):
    return lambda fn, *args: change(fn(*args))


T = torch.arange(6.0).reshape(2, 3)
LIST = [1]
SHARED = (LIST, LIST)
CYCLE = [1]
CYCLE.append(CYCLE)

# Name → program, arguments, what the wrong compiler does instead.
RESULTS = {
    "value": (add, (1, 2), on_result(lambda r: r + 1)),
    "int for bool": (identity, (True,), on_result(int)),
    "float bits": (identity, (0.0,), on_result(lambda r: -r)),
    "none": (identity, (1,), on_result(lambda r: None)),
    "tensor data": (identity, (T,), on_result(lambda r: r + 1)),
    "tensor sign of zero": (identity, (torch.zeros(2),), on_result(lambda r: r.neg_())),
    "tensor dtype": (torch.neg, (T,), on_result(lambda r: r.double())),
    "tensor shape": (torch.neg, (T,), on_result(lambda r: r.reshape(3, 2))),
    "tensor strides": (torch.neg, (T,), on_result(lambda r: r.t().contiguous().t())),
    "tensor requires_grad": (torch.neg, (T,), on_result(lambda r: r.requires_grad_())),
    "tensor detached": (torch.neg, (T.clone().requires_grad_(),), on_result(lambda r: r.detach().requires_grad_())),
    "tensor class": (torch.neg, (T,), on_result(lambda r: torch.nn.Parameter(r, requires_grad=False))),
    "tensor copied": (identity, (T,), on_result(lambda r: r.clone())),
    "view copied": (torch.t, (T,), on_result(lambda r: r.clone())),
    "list copied": (identity, ([1],), on_result(list)),
    "alias lost": (lambda x: [x, x], ([1],), on_result(lambda r: [r[0], list(r[1])])),
    "cycle lost": (lambda: CYCLE, (), on_result(lambda r: [1, [1, CYCLE]])),
    "tuple for list": (lambda: [1], (), on_result(tuple)),
    "dict order": (lambda: {"a": 1, "b": 2}, (), on_result(lambda r: dict(reversed(r.items())))),
    "ordered dict order": (lambda: OrderedDict(a=1, b=2), (), on_result(lambda r: r.move_to_end("a") or r)),
    "dict class": (lambda: OrderedDict(a=1), (), on_result(dict)),
    "set": (lambda: {1, 2}, (), on_result(lambda r: r | {3})),
    "deque bound": (lambda: deque([1], 3), (), on_result(lambda r: deque(r, 4))),
    "slot": (lambda: Point(1, 2), (), on_result(lambda r: Point(1, 3))),
    "slot unset": (lambda: Point(1, 2), (), on_result(lambda r: Point.y.__delete__(r) or r)),
    "attribute": (lambda: Bag(a=1), (), on_result(lambda r: Bag(a=1, b=2))),
    "attribute order": (lambda: Bag(a=1, b=2), (), on_result(lambda r: Bag(b=2, a=1))),
    "closure": (lambda: (lambda n: lambda: n)(1), (), on_result(lambda r: (lambda n: lambda: n)(2))),
    "defaults": (lambda: lambda a=1: a, (), on_result(lambda r: setattr(r, "__defaults__", (2,)) or r)),
    "class body": (lambda: type("C", (), {"a": 1}), (), on_result(lambda r: setattr(r, "a", 2) or r)),
    "class of instance": (lambda: type("C", (), {"a": 1})(), (), on_result(lambda r: type("C", (), {"a": 2})())),
    "partial": (lambda: functools.partial(add, 1), (), on_result(lambda r: functools.partial(add, 2))),
    "iterator": (lambda: iter([1, 2]), (), on_result(lambda r: next(r) and r)),
    "raised": (identity, (1,), on_result(lambda r: 1 / 0)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_result(name):
    fn, args, change = RESULTS[name]
    check(fn, *args, compile=right)
    with pytest.raises(AssertionError, match="call 1 differs"):
        check(fn, *args, compile=wrong(change))


def changed_argument(change):
    def call(fn, x):
        change(x)
        return fn(x)

    return wrong(call)


ARGUMENTS = {
    "list": ([1], lambda x: x.append(2)),
    "nested": ([[1]], lambda x: x[0].append(2)),
    "tensor": ([T], lambda x: x[0].add_(1)),
    "grad": ([torch.ones(2, requires_grad=True)], lambda x: setattr(x[0], "grad", torch.ones(2))),
    "tensor attribute": ([T], lambda x: setattr(x[0], "note", 1)),
    "module": ([torch.nn.Linear(2, 2)], lambda x: x[0].eval()),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_mutated_argument(name):
    argument, change = ARGUMENTS[name]
    check(touch, argument, compile=right)
    with pytest.raises(AssertionError, match="args"):
        check(touch, argument, compile=changed_argument(change))


def test_mutations_of_the_program_itself_are_no_difference():
    def program(x, items):
        items.append(x.sum())
        return x.add_(1)

    check(program, T, [], compile=right, calls=3)
    assert T[0, 0] == 0 and program.__closure__ is None


def speak(x):
    print("out", x)
    print("err", x, file=sys.stderr)
    warnings.warn("careful", UserWarning, stacklevel=1)
    LOG.warning("value %d", x)
    return x


EFFECTS = {
    "stdout": lambda fn, x: (print("more"), fn(x))[1],
    "stderr": lambda fn, x: (print("more", file=sys.stderr), fn(x))[1],
    "warnings": lambda fn, x: (warnings.warn("more", stacklevel=1), fn(x))[1],
    "logging": lambda fn, x: (LOG.error("more"), fn(x))[1],
    "random state": lambda fn, x: (random.random(), fn(x))[1],
    "random state ": lambda fn, x: (torch.rand(1), fn(x))[1],
    "random state  ": lambda fn, x: (numpy.random.rand(), fn(x))[1],
    "torch state": lambda fn, x: (torch.set_default_dtype(torch.float64), fn(x))[1],
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effect(name):
    check(speak, 1, compile=right)
    try:
        with pytest.raises(AssertionError, match=name.strip()):
            check(speak, 1, compile=wrong(EFFECTS[name]))
    finally:
        torch.set_default_dtype(torch.float32)


def test_category_and_line_of_a_warning_count():
    def other(fn, x):
        print("out", x)
        print("err", x, file=sys.stderr)
        warnings.warn("careful", UserWarning, stacklevel=1)
        LOG.warning("value %d", x)
        return x

    with pytest.raises(AssertionError, match="warnings"):
        check(speak, 1, compile=wrong(other))


def fail(kind):
    try:
        {}["missing"]
    except KeyError as error:
        raise ValueError("bad", kind) from error


def chained(context):
    def call(fn, kind):
        try:
            fn(kind)
        except ValueError as error:
            context(error)
            raise

    return wrong(call)


EXCEPTIONS = {
    "other type": wrong(lambda fn, kind: [].pop()),
    "no exception": wrong(lambda fn, kind: None),
    "args": chained(lambda error: setattr(error, "args", ("bad", 2))),
    "cause": chained(lambda error: setattr(error, "__cause__", None)),
    "context": chained(lambda error: setattr(error, "__context__", None)),
    "note": chained(lambda error: error.add_note("hint")),
    "traceback": chained(lambda error: error.with_traceback(None)),
    "traceback of cause": chained(lambda error: error.__cause__.with_traceback(None)),
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exception(name):
    check(fail, 1, compile=right)
    with pytest.raises(AssertionError, match="call 1 differs"):
        check(fail, 1, compile=EXCEPTIONS[name])


def bump(x):
    global counter
    counter += 1
    table["a"].append(x)
    return x


def test_globals_are_separate_and_compared():
    check(bump, 1, globals=["counter", "table"], compile=right)
    assert counter == 0 and table == {"a": [1]}
    with pytest.raises(AssertionError, match="globals"):
        check(bump, 1, globals=["counter", "table"], compile=wrong(lambda fn, x: (fn(x), fn(x))[1]))
    with pytest.raises(AssertionError, match="globals"):
        check(bump, 1, globals=["counter", "table"], compile=wrong(lambda fn, x: x))
    assert counter == 0 and table == {"a": [1]}


def test_closures_are_separate_and_compared():
    count = 0

    def bump(x):
        nonlocal count
        count += 1
        return count

    def program(x):
        return bump(x) + count

    check(program, 1, compile=right, calls=3)
    assert count == 0
    with pytest.raises(AssertionError):
        check(program, 1, compile=wrong(lambda fn, x: (fn(x), fn(x))[0]))
    assert count == 0


def test_methods_and_modules_keep_their_state_between_calls():
    class Counter:
        def __init__(self):
            self.calls = 0

        def step(self, x):
            self.calls += 1
            return x + self.calls

    counter = Counter()
    report = check(counter.step, T, compile=right, calls=3)
    assert counter.calls == 0
    assert report.eager[2].heap.difference(report.eager[1].heap)
    with pytest.raises(AssertionError, match="self"):
        check(counter.step, T, compile=wrong(lambda fn, x: x + 1), calls=1)
    norm = torch.nn.BatchNorm1d(3)
    check(norm, T, compile=right)
    with pytest.raises(AssertionError, match="running_mean"):
        check(norm, T, compile=lambda fn, **options: lambda x: (norm(x), fn.running_mean.add_(1))[0], calls=1)


def test_aliasing_among_arguments_is_kept():
    base = torch.zeros(4)

    def program(x, view):
        view.add_(1)
        return x.sum()

    check(program, base, base[:2], compile=right)
    with pytest.raises(AssertionError, match="differs"):
        check(program, base, base[:2], compile=wrong(lambda fn, x, view: fn(x, view.clone())))
    assert base.sum() == 0


def test_later_calls_are_compared_too():
    seen = []

    def forgetful(fn, x):
        seen.append(x)
        return fn(x) if len(seen) == 1 else 0

    with pytest.raises(AssertionError, match="call 2 differs"):
        check(identity, 1, compile=wrong(forgetful))


def test_varied_arguments():
    check(add, vary=[(1, 2), (3, 4)], compile=right)
    check(add, vary=lambda number: (number, T), calls=3, compile=right)
    with pytest.raises(AssertionError, match="call 2"):
        check(add, vary=[(1, 2), (3, 4)], compile=wrong(lambda fn, x, y: 3))


def test_gradients_are_compared():
    x = torch.ones(3, requires_grad=True)
    check(lambda x: x * x, x, backward=True, compile=right)
    with pytest.raises(AssertionError, match="grad"):
        check(lambda x: x * x, x, backward=True, compile=wrong(lambda fn, x: x.detach() * x))


def test_tolerance():
    nearly = wrong(lambda fn, x: fn(x) + 1e-7)
    check(torch.exp, T, tolerance=1e-5, compile=nearly)
    with pytest.raises(AssertionError):
        check(torch.exp, T, compile=nearly)
    with pytest.raises(AssertionError):
        check(torch.exp, T, tolerance=1e-5, compile=wrong(lambda fn, x: fn(x) + 1e-3))


class Counting:
    """An engine that reports the given counts after each call."""

    def __init__(self, *rows):
        self.rows = iter([dict(zip(("graphs", "recompiles", "graph_breaks", "frames_captured"), row)) for row in rows])

    def compile(self, fn, **options):
        return fn

    def reset(self):
        pass

    def counts(self):
        return {"frames_skipped": 0, **next(self.rows)}


COUNTS = {
    "right": (((1, 0, 0, 1), (1, 0, 0, 1)), None),
    "two graphs": (((2, 0, 0, 1), (2, 0, 0, 1)), "graphs"),
    "recompiled": (((1, 0, 0, 1), (1, 1, 0, 1)), "recompiles"),
    "broke": (((1, 0, 1, 1), (1, 0, 1, 1)), "graph_breaks"),
    "nothing captured": (((0, 0, 0, 0), (0, 0, 0, 0)), "nothing was captured"),
    "no hit": (((1, 0, 0, 1), (1, 0, 0, 2)), "not a hit"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    rows, message = COUNTS[name]
    if message is None:
        check(identity, 1, compile=Counting(*rows), expect_graphs=1)
        return
    with pytest.raises(AssertionError, match=message):
        check(identity, 1, compile=Counting(*rows))


def test_expected_counts():
    rows = ((2, 0, 1, 2), (4, 1, 2, 4))
    check(identity, 1, compile=Counting(*rows), expect_graphs=4, expect_recompiles=1, expect_breaks=2, fullgraph=False)
    with pytest.raises(AssertionError, match="graphs"):
        check(identity, 1, compile=Counting(*rows), expect_graphs=3, expect_recompiles=1, expect_breaks=2)


def test_images_of_equal_programs_are_equal():
    def make():
        class Node:
            def __init__(self, value):
                self.value, self.me = value, self

        node = Node(T.clone())
        return {"nodes": [node, node], "set": {1, "a"}, "type": Node, "f": lambda: node}

    assert image(x=make()).difference(image(x=make())) is None


def test_copies_of_tensors_with_a_history_are_their_own():
    class Kept(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.doubles = [self.weight * number for number in range(8)]

    copied = World().program(Kept())
    assert [double.tolist()[0] for double in copied.doubles] == list(range(8))
