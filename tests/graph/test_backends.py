"""Looking up backends, what they are given, and what becomes of what they give back."""

import subprocess
import sys
import types
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from stator.errors import BackendError, InvalidBackend, InvalidOptions
from stator.graph import backends
from stator.graph.backends import compile_graph, inductor_settings, lookup
from stator.report import events
from tests.tensors.capturing import record


def make():
    torch.manual_seed(0)
    return {"x": torch.randn(4, 6), "w": nn.Parameter(torch.randn(6, 6))}


def program(x, w):
    return (x @ w).relu(), x.sum()


def capture():
    captured = record(program, make())
    return captured.module, captured.inputs


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_training(backend):
    module, inputs = capture()
    results = compile_graph(module, inputs, backend)(*inputs)
    expected = make()
    for a, b in zip(results, program(**expected), strict=True):
        torch.testing.assert_close(a, b)
    results[0].sum().backward()
    program(**expected)[0].sum().backward()
    torch.testing.assert_close(inputs[1].grad, expected["w"].grad)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_sizes_stay_fixed(backend):
    """AOTAutograd would make sizes symbolic by itself."""
    seen = []

    def spy(graph, inputs):
        compiled = lookup(backend)(graph, inputs)
        seen.append(torch._guards.TracingContext.get().fake_mode.shape_env.var_to_range)
        return compiled

    module, inputs = capture()
    compile_graph(module, inputs, spy)(*inputs)
    assert seen == [{}]


class TestCallables:
    def test_arguments(self):
        seen = []

        def backend(graph, inputs):
            seen.append((graph, inputs))
            return graph.forward

        module, inputs = capture()
        compiled = compile_graph(module, inputs, backend)
        assert isinstance(seen[0][0], torch.fx.GraphModule)
        assert all(type(tensor) in (torch.Tensor, nn.Parameter) for tensor in seen[0][1])
        assert torch.equal(compiled(*inputs)[1], inputs[0].sum())

    @pytest.mark.parametrize("give", [lambda graph: graph, lambda graph: graph.forward], ids=["module", "forward"])
    def test_untouched_modules_become_plain_functions(self, give):
        module, inputs = capture()
        compiled = compile_graph(module, inputs, lambda graph, _: give(graph))
        assert isinstance(compiled, types.FunctionType)
        assert "_lazy_forward" not in str(compiled)

    def test_changed_modules_run_as_changed(self):
        def backend(graph, inputs):
            for node in graph.graph.nodes:
                if node.target == "relu":
                    node.target = "neg"
            graph.recompile()
            return graph.forward

        module, inputs = capture()
        result = compile_graph(module, inputs, backend)(*inputs)[0]
        torch.testing.assert_close(result, -(inputs[0] @ inputs[1]))

    def test_options_reach_the_backend(self):
        def backend(graph, inputs, *, mode=None, options=None):
            seen.append((mode, options))
            return graph

        seen = []
        for settings in ({}, {"mode": "default"}, {"mode": "fast"}, {"options": {"a": 1}}):
            compile_graph(*capture(), backend, **settings)
        assert seen == [(None, None), (None, None), ("fast", None), (None, {"a": 1})]

    def test_example_values(self):
        def backend(graph, inputs):
            for node in graph.graph.nodes:
                if node.op != "output":
                    seen.append((node.name, tuple(node.meta["example_value"].shape)))
            return graph

        seen = []
        compile_graph(*capture(), backend)
        assert seen == [("x", (4, 6)), ("w", (6, 6)), ("matmul", (4, 6)), ("relu", (4, 6)), ("sum_", ())]

    def test_built_on_aot_autograd(self):
        from torch._functorch.aot_autograd import aot_module_simplified

        def backend(graph, inputs):
            def compiler(inner, fakes):
                graphs.append(inner)
                return inner

            return aot_module_simplified(graph, inputs, fw_compiler=compiler)

        graphs = []
        module, inputs = capture()
        results = compile_graph(module, inputs, backend)(*inputs)
        results[0].sum().backward()
        assert inputs[1].grad is not None
        assert graphs

    def test_failure(self):
        def backend(graph, inputs):
            raise ValueError("no")

        with pytest.raises(BackendError, match="ValueError: no") as caught:
            compile_graph(*capture(), backend)
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(BackendError, match="cannot be called"):
            compile_graph(*capture(), lambda graph, inputs: None)


class TestNames:
    def test_unknown(self):
        with pytest.raises(InvalidBackend, match="inductor") as caught:
            lookup("inductr")
        assert caught.value.known == ("inductor",)

    def test_entry_points(self, monkeypatch):
        class Entry:
            def load(self):
                return mine

        def mine(graph, inputs):
            return graph

        class Entries(list):
            names = {"mine"}

        def fake_entry_points(group, name="mine"):
            assert group == "torch_dynamo_backends"
            return Entries([Entry()] if name == "mine" else [])

        monkeypatch.setattr(backends, "entry_points", fake_entry_points)
        assert lookup("mine") is mine
        assert "mine" in backends.names()

    def test_registered_with_torch(self):
        assert callable(lookup("aot_eager_decomp_partition"))

    def test_callables_are_themselves(self):
        assert lookup(program) is program


class TestInductorSettings:
    def test_modes(self):
        assert inductor_settings(None, None) == {}
        assert inductor_settings("default", None) == {}
        assert inductor_settings("max-autotune-no-cudagraphs", None)["max_autotune"] is True
        assert inductor_settings("reduce-overhead", None) == {"triton.cudagraphs": True}

    def test_options(self):
        assert inductor_settings(None, {"max-autotune": True}) == {"max_autotune": True}

    def test_errors(self):
        with pytest.raises(InvalidOptions, match="modes are: default"):
            inductor_settings("fastest", None)
        with pytest.raises(InvalidOptions, match="not both"):
            inductor_settings("default", {})


def test_operations_that_a_backend_refuses():
    assert torch.lstm in backends.refused("inductor")
    assert torch.lstm in backends.refused(lambda graph, inputs: graph)
    assert backends.refused("eager") == frozenset()

    def program(x):
        return torch.lstm(x, (x, x), [x], False, 1, 0.0, False, False, False)

    with pytest.raises(Exception, match="the backend cannot take it"):
        record(program, {"x": torch.ones(1)}, refused=backends.refused("inductor"))


@pytest.mark.parametrize(
    "used",
    [
        "import stator.tensors.recorder; stator.graph.backends.lookup('inductor');",
        "stator.compile(torch.sin, backend=lambda graph, inputs: graph.forward)(torch.ones(2));",
    ],
)
def test_imports_stay_light(used):
    """Nothing heavy is imported before something is captured, or compiled by a backend that needs it."""
    script = (
        "import sys, torch; before = set(sys.modules);"
        f"import stator.graph.backends; {used}"
        "heavy = ['sympy', 'torch._inductor', 'torch._dynamo', 'torch._functorch.aot_autograd', 'triton', 'networkx'];"
        "print([name for name in heavy if name in sys.modules and name not in before])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_with_members_run_themselves():
    def backend(graph, inputs):
        graph.register_buffer("one", torch.ones(()))
        output = graph.graph.output_node()
        with graph.graph.inserting_before(output):
            one = graph.graph.get_attr("one")
        output.args = ((*output.args[0], one),)
        return graph

    module, inputs = capture()
    assert compile_graph(module, inputs, backend)(*inputs)[2] == 1


def test_warnings_of_a_failing_backend_are_not_told(recwarn):
    def fails(graph, inputs):
        warnings.warn("in the middle", stacklevel=1)
        raise ValueError("no")

    with pytest.raises(BackendError):
        compile_graph(*capture(), fails)
    assert not recwarn.list


def test_warnings_of_a_backend_are_told_but_never_raised(caplog):
    def warns(graph, inputs):
        warnings.warn("that is slow", stacklevel=1)
        return graph

    module, inputs = capture()
    with pytest.warns(UserWarning, match="that is slow"):
        compile_graph(module, inputs, warns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(compile_graph(module, inputs, warns)(*inputs)) == 2
    assert "that is slow" in caplog.text


@pytest.mark.inductor
def test_the_recursion_limit_is_the_one_of_the_program():
    before = sys.getrecursionlimit()
    x = torch.randn(5, requires_grad=True)
    compiled = stator.compile(lambda x: (x.cos() * sys.getrecursionlimit()).sum(), options={"fx_graph_cache": False})
    sys.setrecursionlimit(1500)
    try:
        compiled(x).backward()
        assert sys.getrecursionlimit() == 1500
        torch.testing.assert_close(x.grad, -x.detach().sin() * 1500)
    finally:
        sys.setrecursionlimit(before)
    assert stator.stats()["frames_captured"] == 1


def test_a_backward_pass_that_inductor_cannot_compile_runs_its_operations(monkeypatch):
    """As some with sizes from data: the forward pass has run by then."""
    from torch._inductor import compile_fx
    from torch._inductor.exc import InductorError

    import stator

    compiled = compile_fx.compile_fx_inner

    def forward_only(graph, inputs, **options):
        if options.get("is_backward"):
            raise InductorError(AssertionError("expected [u0] to have been codegen-ed"), None)
        return compiled(graph, inputs, **options)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", forward_only)
    x = torch.randn(3, requires_grad=True)
    result = stator.compile(lambda x: x.sin() * 2, backend="inductor")(x)
    result.sum().backward()
    assert torch.allclose(x.grad, x.detach().cos() * 2)


def test_results_that_lie_otherwise_than_torch_says():
    """The kernel lays out the gradient of softplus as the gradient that it is given, fake tensors as the input."""

    def program(x, weight, other):
        return (F.softplus(x @ weight).transpose(1, 2) * other).sum()

    inputs = [torch.randn(size, requires_grad=True) for size in ((2, 5, 4), (4, 6), (2, 6, 5))]
    wanted = torch.autograd.grad(program(*inputs), inputs)
    found = torch.autograd.grad(stator.compile(program, backend="aot_eager")(*inputs), inputs)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_first_call_runs_as_the_second(backend):
    """Below a mode of AOTAutograd's own, kernels that are made of others would not conjugate."""
    x = torch.randn(3, 3, dtype=torch.complex64)
    found = stator.compile(lambda x: torch.linalg.pinv(x), backend=backend)(x)
    torch.testing.assert_close(found, torch.linalg.pinv(x))


def test_backward_of_any_backend_is_compiled_while_sizes_can_be_guarded():
    """What it asks about sizes later would hold for the sizes of that call only."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    def backward(graph, inputs):
        scale = 1 if inputs[-1].shape[0] < 8 else 2

        def run(args):
            assert scale == (1 if args[-1].shape[0] < 8 else 2)
            return graph(*args)

        run._boxed_call = True
        return run

    def backend(graph, inputs):
        return aot_module_simplified(
            graph, inputs, fw_compiler=lambda graph, _: make_boxed_func(graph.forward), bw_compiler=backward
        )

    compiled = stator.compile(lambda x: x.sin() * 2, backend=backend)
    for length in (3, 4, 9, 1, 12, 6):
        x = torch.randn(length, requires_grad=True)
        compiled(x).sum().backward()
        assert torch.allclose(x.grad, x.detach().cos() * 2)


def test_a_backend_that_fails_with_classes_patched():
    """Its patches are undone, but the classes have other versions then: the call is still known the next time."""
    calls, errors = [], []

    def patching(graph, inputs):
        calls.append(graph)
        nn.Module.patched = True
        del nn.Module.patched
        raise RuntimeError("it cannot")

    layer, x = nn.Linear(3, 3), torch.ones(2, 3)
    events.subscribe(errors.append, "error")
    try:
        compiled = stator.compile(layer, backend=patching)
        for _ in range(3):
            assert torch.equal(compiled(x), layer(x))
    finally:
        events.unsubscribe(errors.append, "error")
    assert len(calls) == 1
    assert errors == []
