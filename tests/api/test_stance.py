"""Stances: when compiled callables compile, and when they use what is compiled."""

import pickle
import sys
import threading

import pytest
import torch

import stator
from stator.control import stance as stances

ONE, TWO = torch.ones(1), torch.ones(2)


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    left = stances.current()
    stator.stance("default")
    stator.reset()
    assert left == "default"


@stator.disable
def eager():
    return 2


def make():
    """A compiled function that gives x + 1 when compiled and x + 2 when not."""
    return stator.compile(lambda x: x + 1 if stator.is_compiling() else x + 2, backend="eager")


COMPILED, EAGER = 2, 3


def result(step, x=ONE):
    return step(x)[0].item()


def test_context_manager():
    step = make()
    assert result(step) == COMPILED
    with stator.stance("force_eager"):
        assert result(step) == EAGER
        with stator.stance("default"):
            assert result(step) == COMPILED
        assert result(step) == EAGER and stances.current() == "force_eager"
    assert result(step) == COMPILED


def test_plain_call():
    step = make()
    stator.stance("force_eager")
    assert result(step) == EAGER
    stator.stance("default")
    assert result(step) == COMPILED
    stator.stance("force_eager")
    stator.stance()
    assert stances.current() == "default"


def test_decorator():
    step = make()

    @stator.stance("force_eager")
    def inside(x):
        """Runs it."""
        return step(x)

    assert stances.current() == "default"
    assert inside(ONE).item() == EAGER and inside.__doc__ == "Runs it."
    assert result(step) == COMPILED
    with stator.stance("fail_on_recompile"):
        assert inside(ONE).item() == EAGER and stances.current() == "fail_on_recompile"


def test_after_an_error():
    with pytest.raises(KeyError), stator.stance("force_eager"):
        raise KeyError
    assert stances.current() == "default"


def test_force_eager_makes_no_entries():
    step = make()
    with stator.stance("force_eager"):
        assert result(step) == EAGER
    assert stator.stats()["frames_captured"] == 0


def test_force_eager_modules_methods_and_keywords():
    class Model(torch.nn.Module):
        def forward(self, x, *, n=1):
            return x + n if stator.is_compiling() else x - n

    class Thing:
        @stator.compile(backend="eager")
        def method(self, x):
            return x + 1 if stator.is_compiling() else x + 2

    model, thing = stator.compile(Model(), backend="eager"), Thing()
    assert model(ONE, n=4).item() == 5 and thing.method(ONE).item() == COMPILED
    with stator.stance("force_eager"):
        assert model(ONE, n=4).item() == -3 and thing.method(ONE).item() == EAGER


def test_eager_on_recompile():
    step = make()
    with stator.stance("eager_on_recompile"):
        assert result(step) == EAGER  # a first compilation is one, too
    assert result(step) == COMPILED
    with stator.stance("eager_on_recompile"):
        assert result(step) == COMPILED
        assert result(step, TWO) == EAGER
    assert result(step, TWO) == COMPILED
    assert stator.stats()["frames_captured"] == 2


def test_fail_on_recompile():
    step = make()
    with stator.stance("fail_on_recompile"), pytest.raises(stator.RecompileError, match="nothing was compiled"):
        step(ONE)
    assert result(step) == COMPILED
    with stator.stance("fail_on_recompile"):
        assert result(step) == COMPILED
        with pytest.raises(stator.RecompileError, match="fail_on_recompile") as caught:
            step(TWO)
    assert len(caught.value.reasons) == 1 and "size" in caught.value.reasons[0]
    assert caught.value.reasons[0] in str(caught.value)
    assert isinstance(caught.value, stator.StatorError) and isinstance(caught.value, RuntimeError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert result(step, TWO) == COMPILED


@pytest.mark.parametrize("name", ["eager_on_recompile", "fail_on_recompile"])
def test_entries_that_run_eagerly_are_entries(name):
    step = stator.compile(lambda x: x + eager(), backend="eager")
    assert result(step) == 3
    with stator.stance(name):
        assert result(step) == 3


def broken(x):
    y = x + (1 if stator.is_compiling() else 2)
    stator.graph_break()
    return y + (10 if stator.is_compiling() else 20)


def test_behind_a_break():
    step = stator.compile(broken, backend="eager")
    assert result(step) == 12
    with stator.stance("force_eager"):
        assert result(step) == 23
    with stator.stance("fail_on_recompile"):
        assert result(step) == 12
        with pytest.raises(stator.RecompileError, match="broken"):
            step(TWO)
    with stator.stance("eager_on_recompile"):
        assert result(step) == 12 and result(step, TWO) == 23


def test_stance_that_changes_at_a_break():
    change = stator.disable(stator.stance)

    def fn(x):
        y = x + (1 if stator.is_compiling() else 2)
        change("force_eager")
        return y + (10 if stator.is_compiling() else 20)

    step = stator.compile(fn, backend="eager")
    for _ in range(2):
        assert result(step) == 22
        stator.stance("default")


def test_whole_process():
    step, seen = make(), []
    result(step)
    with stator.stance("force_eager"):
        thread = threading.Thread(target=lambda: seen.append(result(step)))
        thread.start()
        thread.join()
    assert seen == [EAGER]


def by_call(x):
    stator.stance("default")
    return x + 1


def by_block(x):
    with stator.stance("force_eager"):
        return x + 1


@stator.stance("force_eager")
def by_decorator(x):
    return x + 1


def by_torch(x):
    with torch.compiler.set_stance("force_eager"):
        return x + 1


@pytest.mark.parametrize("fn", [by_call, by_block, by_decorator, by_torch])
def test_not_from_captured_code(fn):
    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(fn, backend="eager", fullgraph=True)(ONE)
    assert caught.value.break_id == "control-in-capture"
    assert stator.compile(fn, backend="eager")(ONE).item() == 2


def test_wrong_arguments():
    with pytest.raises(stator.InvalidOptions, match="eager_on_recompile"):
        stator.stance("eager")
    with pytest.raises(stator.InvalidOptions, match="skip_guard_eval_unsafe is not offered"):
        stator.stance("default", skip_guard_eval_unsafe=True)
    with pytest.raises(stator.InvalidArgument):
        stator.stance("force_eager")(3)

    def generator():
        yield 1

    with pytest.raises(stator.InvalidArgument, match="in one go"):
        stator.stance("force_eager")(generator)


def test_the_stance_of_torch():
    step = make()
    with torch.compiler.set_stance("force_eager"):
        assert result(step) == EAGER and stances.current() == "force_eager"
        with stator.stance("eager_on_recompile"):
            assert result(step) == EAGER and stances.current() == "eager_on_recompile"
    assert result(step) == COMPILED
    with torch.compiler.set_stance("fail_on_recompile"):
        assert result(step) == COMPILED
        with pytest.raises(stator.RecompileError):
            step(TWO)
        with torch.compiler.set_stance("eager_then_compile"):  # not one of ours
            assert result(step, TWO) == COMPILED
    assert stances.current() == "default"


def test_the_stance_of_torch_when_its_compiler_is_loaded_late(monkeypatch):
    step = make()
    with torch.compiler.set_stance("force_eager"), monkeypatch.context() as patch:
        patch.delitem(sys.modules, stances.TORCH_HOME)
        assert result(step) == COMPILED
        patch.undo()
        assert result(step) == EAGER
    assert result(step) == COMPILED
