"""Every way to keep a function out of a capture."""

import functools

import pytest
import torch
import torch._dynamo

import stator
from stator import _entry, _frames
from tests.harness import check

ONE = torch.ones(2)
SPELLINGS = [stator.disable, torch.compiler.disable, torch._dynamo.disable]


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    stator.reset()


def reason(fn, *args):
    """Why a call is not captured whole."""
    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(fn, backend="eager", fullgraph=True)(*args)
    assert stator.compile(fn, backend="eager")(*args).tolist() == fn(*args).tolist()
    assert caught.value.break_id == "disabled-function"
    return str(caught.value)


def double(x):
    assert not stator.is_compiling() and type(x) is torch.Tensor
    return x * 2


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("disable", SPELLINGS)
def test_function(disable, recursive):
    excluded = disable(double, recursive=recursive)
    text = reason(lambda x: excluded(x) + 1, ONE)
    assert "double" in text
    check(lambda x: excluded(x) + 1, ONE, fullgraph=False, expect_breaks=1)


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("disable", SPELLINGS)
def test_what_is_around_it_is_captured(disable, recursive):
    excluded = disable(double, recursive=recursive)
    step = stator.compile(lambda x: excluded(x.sin()).cos(), backend="eager")
    assert step(ONE).tolist() == (ONE.sin() * 2).cos().tolist()
    assert stator.stats()["graphs"] == 2 and stator.stats()["graph_breaks"] == 1


seen = []


def leaf(x):
    """Notes whether it is captured."""
    seen.append(stator.is_compiling())
    return x.sin() + 1


def middle(x):
    assert not stator.is_compiling()
    return leaf(x) * 2


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("disable", SPELLINGS)
def test_what_it_calls(disable, recursive):
    """With `recursive=False` what the function calls is captured, but not the function itself."""
    excluded = disable(middle, recursive=recursive)
    step = stator.compile(lambda x: excluded(x.cos()) - 1, backend="eager")
    seen.clear()
    for _ in range(2):
        assert step(ONE).tolist() == ((ONE.cos().sin() + 1) * 2 - 1).tolist()
    assert seen == [not recursive] * 2


class Holder:
    def method(self, x):
        return leaf(x)


CALLS = [
    lambda function, method, x: function(x.cos()) - 1,
    lambda function, method, x: function(x=x.cos()) - 1,
    lambda function, method, x: function(*(x.cos(),), **{}) - 1,
    lambda function, method, x: method(x.cos()) - 1,
]


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_nobody_waits_for_frames_below_it(call, recursive):
    """The hook is installed only where something below may be compiled."""
    owners = []

    def below(owner, *call):
        owners.append(owner)
        return _frames.below(owner, *call)

    class Excluding(Holder):
        method = stator.disable(Holder.method, recursive=recursive)

    step = stator.compile(call, backend="eager")
    _entry.set_step_runner(below)
    try:
        for _ in range(2):
            got = step(stator.disable(leaf, recursive=recursive), Excluding().method, ONE)
            assert got.tolist() == (ONE.cos().sin() + 1 - 1).tolist()
    finally:
        _entry.set_step_runner(_frames.below)
    assert bool(owners) is not recursive and None not in owners


@pytest.mark.parametrize("disable", SPELLINGS)
def test_the_break_is_where_the_call_is(disable):
    excluded = disable(double)

    def fn(x):
        return excluded(x) + 1

    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(fn, backend="eager", fullgraph=True)(ONE)
    assert caught.value.location.text.strip() == "return excluded(x) + 1"


@pytest.mark.parametrize("disable", SPELLINGS)
def test_native_code_calls_it(disable):
    excluded = disable(double)
    reason(lambda x: next(map(excluded, [x])) + 1, ONE)


@pytest.mark.parametrize("disable", SPELLINGS)
def test_reason(disable):
    @disable(reason="it is slow")
    def fn(x):
        return x + 1

    assert "it is slow" in reason(lambda x: fn(x), ONE)


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("disable", SPELLINGS)
def test_method(disable, recursive):
    class Thing:
        @disable(recursive=recursive)
        def method(self, x):
            return x + 1

        def plain(self, x):
            return x + 2

    thing = Thing()
    bound = disable(thing.plain, recursive=recursive)
    reason(lambda x: thing.method(x), ONE)
    reason(lambda x: bound(x), ONE)


class Inner(torch.nn.Module):
    def forward(self, x):
        assert not stator.is_compiling()
        return x + 1


class Outer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


@pytest.mark.parametrize("disable", SPELLINGS)
def test_module_instance(disable):
    inner = disable(Inner())
    reason(Outer(inner), ONE)
    reason(lambda x: inner(x), ONE)


@pytest.mark.parametrize("disable", SPELLINGS)
def test_module_class(disable):
    class Mine(Inner):
        pass

    cls = disable(Mine)
    reason(Outer(cls()), ONE)


@pytest.mark.parametrize("disable", SPELLINGS)
def test_forward_of_a_class(disable):
    class Mine(torch.nn.Module):
        @disable
        def forward(self, x):
            return x + 1

    reason(Outer(Mine()), ONE)


@pytest.mark.parametrize("disable", SPELLINGS)
def test_forward_of_an_instance(disable):
    inner = Inner()
    inner.forward = disable(inner.forward)
    reason(Outer(inner), ONE)


@pytest.mark.parametrize("disable", SPELLINGS)
def test_callable_class(disable):
    @disable
    class Thing:
        def __call__(self, x):
            return x + 1

    thing = Thing()
    reason(lambda x: thing(x), ONE)


def test_marker():
    def fn(x):
        return x + 1

    fn._torchdynamo_disable = True
    reason(lambda x: fn(x), ONE)
    fn._torchdynamo_disable = False
    check(lambda x: fn(x), ONE)


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("disable", SPELLINGS)
def test_functions_around_it_are_captured(disable, recursive):
    """`functools.wraps` copies torch's mark to functions that nobody disabled."""
    excluded = disable(double, recursive=recursive)

    @functools.wraps(excluded)
    def around(x, really):
        return excluded(x) if really else x * 3

    check(lambda x: around(x, False), ONE)
    reason(lambda x: around(x, True), ONE)


@pytest.mark.parametrize("disable", SPELLINGS)
def test_compiled_inside_disabled(disable):
    """What an excluded function compiles by itself is compiled."""
    step = stator.compile(lambda x: x + 1 if stator.is_compiling() else x + 2, backend="eager", fullgraph=True)

    @disable
    def fn(x):
        return step(x)

    assert stator.compile(lambda x: fn(x) * 1, backend="eager")(ONE).tolist() == [2, 2]
