"""Torch state inside a graph: as in eager for each operation, restored afterwards whatever happens."""

import pytest
import torch

from stator.graph.backends import compile_graph
from stator.graph.source import Source, compile_source
from stator.tensors.modes import read_state
from stator.tensors.recorder import Recorder
from stator.tensors.signals import UnsupportedState
from tests import harness
from tests.tensors.capturing import check, record


def make():
    torch.manual_seed(0)
    return {"x": torch.randn(4, 8), "w": torch.nn.Parameter(torch.randn(8, 8))}


def no_grad(x, w):
    with torch.no_grad():
        y = x @ w
    assert not y.requires_grad
    return y * w[0]


def enable_grad_inside_no_grad(x, w):
    with torch.no_grad():
        a = x @ w
        with torch.enable_grad():
            b = x @ w
        c = a * b
    return b, c


def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        assert y.dtype is torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            z = x @ w
    return y.float().sum(), z


def inference(x, w):
    with torch.inference_mode():
        y = x @ w
        assert y.is_inference()
        with torch.inference_mode(False):
            z = x @ w
    return z, x + 1


def decorated(x, w):
    @torch.no_grad()
    def inner(t):
        return t @ w

    return inner(x) + w[0]


PROGRAMS = [no_grad, enable_grad_inside_no_grad, autocast, inference, decorated]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_state_per_operation(program, backend):
    before = read_state()
    check(program, make, backend)
    assert read_state() == before


@pytest.mark.inductor
@pytest.mark.parametrize("program", [no_grad, autocast], ids=lambda p: p.__name__)
def test_with_inductor(program):
    captured = record(program, make())
    inputs = captured.inputs
    results = compile_graph(captured.module, inputs, "inductor")(*inputs)
    expected = program(**make())
    for a, b in zip(results, [expected] if isinstance(expected, torch.Tensor) else expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)


def test_contexts_around_nothing_leave_no_trace():
    def program(x, w):
        with torch.no_grad(), torch.autocast("cpu"):
            x.shape
        return x + 1

    assert len(record(program, make()).targets) == 1


def test_graph_ends_in_the_state_it_started_in():
    def program(x, w):
        torch.set_grad_enabled(False)
        return x @ w

    captured = record(program, make())
    assert torch.is_grad_enabled()  # capture restored it
    assert captured.recorder.state_effects() == [(torch._C._set_grad_enabled, (False,))]
    assert record(no_grad, make()).recorder.state_effects() == []
    results = compile_graph(captured.module, captured.inputs, "eager")(*captured.inputs)
    assert torch.is_grad_enabled()
    assert not results[0].requires_grad


def test_abandoned_capture_restores_everything():
    before = read_state()
    with pytest.raises(ZeroDivisionError), Recorder() as recorder:
        guard = recorder.call(torch._C._InferenceMode, (True,))
        guard.__enter__()
        torch.autocast("cpu").__enter__()
        torch._C._set_grad_enabled(False)
        raise ZeroDivisionError
    assert read_state() == before
    assert torch.is_autocast_cache_enabled()


def test_error_in_the_middle_of_a_graph_restores_the_state():
    def program(x, w):
        with torch.inference_mode(), torch.autocast("cpu"):
            torch.ops.aten._assert_async.msg(x.sum() > 1e9, "too small")
            return x + 1

    captured = record(program, make())
    before = read_state()
    with pytest.raises(RuntimeError, match="too small"):
        compile_source(captured.module.graph)(*captured.inputs)
    assert read_state() == before
    assert "except BaseException" in Source(captured.module.graph).text


def test_default_device_becomes_an_argument_of_factories():
    def program(x, w):
        with torch.device("meta"):
            y = torch.zeros(3)
        assert y.device.type == "meta"
        return y, torch.zeros(3)

    captured = record(program, make())
    nodes = [node for node in captured.module.graph.nodes if node.target is torch.zeros]
    assert [node.kwargs for node in nodes] == [{"device": torch.device("meta")}, {}]


def test_autocast_cache_of_the_process_stays_empty():
    def program(x, w):
        return x @ w

    with torch.autocast("cpu"):
        record(program, make())
        inputs = make()
        assert torch.equal(program(**inputs), (inputs["x"].bfloat16() @ inputs["w"].bfloat16()))


def test_foreign_modes_are_refused():
    class Mode(torch.overrides.TorchFunctionMode):
        pass

    with Mode(), pytest.raises(UnsupportedState), Recorder():
        pass
    with torch.autograd.forward_ad.dual_level(), pytest.raises(UnsupportedState), Recorder():
        pass

    def transformed(x):
        with pytest.raises(UnsupportedState), Recorder():
            pass
        return x

    torch.func.vmap(transformed)(torch.ones(2))


def test_disabled_dispatch_is_left_to_cpython():
    """Operations on tensors without data would run for real there, and crash."""

    def program(x):
        with torch._C._DisableTorchDispatch():
            y = x.clone().mul_(2)
            y.cos_()
        return y + 1

    harness.check(program, torch.ones(3), fullgraph=False, expect_breaks=1, expect_graphs=None, expect_recompiles=None)


def test_random_numbers_are_not_drawn_while_capturing():
    def program(x, w):
        torch.nn.functional.dropout(x)
        torch.randn(3)
        x.bernoulli_()
        return torch.rand_like(w), torch.randperm(5)

    inputs, state = make(), torch.get_rng_state()
    record(program, inputs)
    assert torch.equal(torch.get_rng_state(), state)


def test_default_dtype_cannot_change_inside():
    """AOTAutograd would look at it again when the graph runs."""

    def program(x, w):
        torch.set_default_dtype(torch.float64)
        return torch.arange(3) / 2

    with pytest.raises(UnsupportedState), Recorder(traces=True):
        program(None, None)
    assert torch.get_default_dtype() is torch.float32


def test_context_left_open():
    def program(x, w):
        torch.autocast("cpu").__enter__()
        return x @ w

    captured = record(program, make())
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", enabled=False):
        for function, arguments in captured.recorder.state_effects():
            function(*arguments)
        assert torch.is_autocast_enabled("cpu")
        torch.autocast_decrement_nesting()


def refused_outside(x, w):
    """What torch refuses to do with tensors of inference mode is refused where the program tries."""
    with torch.inference_mode():
        y = x * 2
    told = [y + w]
    for attempt in (lambda: y * w, lambda: y.add_(1), lambda: y.requires_grad_()):
        try:
            told.append(attempt())
        except RuntimeError as error:
            told.append(str(error))
    return told


def test_tensors_of_inference_mode_outside_of_it():
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    harness.check(refused_outside, x, w, fullgraph=False, expect_breaks=None, expect_recompiles=None)
