"""The public surface with the real compiler behind it."""

import copy
import functools
import inspect
import pickle
import threading

import pytest
import torch
from torch import nn

import stator
from tests.harness import check

compile = functools.partial(stator.compile, backend="eager", fullgraph=True)
X = torch.arange(6.0).reshape(2, 3)


def add(x, y=1):
    """Adds."""
    return x + y


def counts(*names):
    stats = stator.stats()
    return tuple(stats[name] for name in names)


def test_function_is_captured_once_and_hit_afterwards():
    compiled = compile(add)
    for _ in range(3):
        assert torch.equal(compiled(X), X + 1)
    assert counts("frames_captured", "graphs", "recompiles", "frames_skipped", "graph_breaks") == (1, 1, 0, 0, 0)
    assert stator.stats()["captured_codes"] == [add.__code__]


def test_compiled_function_looks_like_the_original():
    compiled = compile(add)
    assert compiled.__name__ == "add" and compiled.__doc__ == "Adds." and compiled.__wrapped__ is add
    assert compiled.__module__ == __name__ and inspect.signature(compiled) == inspect.signature(add)


def test_keyword_arguments_and_defaults():
    compiled = compile(add)
    for args, kwargs in [((X,), {}), ((X, 2), {}), ((X,), {"y": 3}), ((), {"x": X, "y": 4}), ((), {"y": 5, "x": X})]:
        assert torch.equal(compiled(*args, **kwargs), add(*args, **kwargs))


def test_wrong_arguments_raise_as_in_eager():
    check(add, expect_graphs=None)
    check(add, X, kwargs={"z": 1})


def test_method():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @compile
        def apply(self, x):
            return x * self.factor

    two, three = Scale(2), Scale(3)
    assert torch.equal(two.apply(X), X * 2) and torch.equal(three.apply(X), X * 3)
    assert torch.equal(two.apply(X), X * 2)
    two.factor = 5
    assert torch.equal(two.apply(X), X * 5)


def test_callable_object():
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n

    adder = Adder(2)
    compiled = compile(adder)
    assert torch.equal(compiled(X), X + 2)
    adder.n = 7
    assert torch.equal(compiled(X), X + 7)


def test_partial():
    compiled = compile(functools.partial(add, y=3))
    assert torch.equal(compiled(X), X + 3) and torch.equal(compiled(X), X + 3)
    assert counts("graphs", "recompiles") == (1, 0)


def test_each_compile_has_its_own_entries():
    def make(n):
        return compile(lambda x: x + n)

    functions = [make(n) for n in range(12)]
    assert all(torch.equal(function(X), X + n) for n, function in enumerate(functions))
    assert counts("graphs", "recompiles") == (12, 0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return self.norm(self.linear(x)) * scale


def test_module():
    net = Net()
    twin = copy.deepcopy(net)
    compiled = compile(net)
    for _ in range(3):
        assert torch.equal(compiled(X), twin(X))
    assert net.calls == 3 and torch.equal(net.norm.running_mean, twin.norm.running_mean)


def test_module_modes_are_guarded():
    net = Net()
    compiled = compile(net)
    twin = copy.deepcopy(net)
    for mode in (True, False, True, False):
        compiled.train(mode)
        twin.train(mode)
        assert torch.equal(compiled(X), twin(X))


def test_module_parameters_are_inputs():
    net = Net().eval()
    compiled = compile(net)
    compiled(X)
    before = counts("graphs")
    with torch.no_grad():
        net.linear.weight.add_(1)
    assert torch.equal(compiled(X), net.norm(net.linear(X)))
    net.linear.weight = nn.Parameter(torch.zeros(3, 3))
    assert torch.equal(compiled(X), net.norm(net.linear(X)))
    net.load_state_dict(Net().state_dict())
    assert torch.equal(compiled(X), net.norm(net.linear(X)))
    assert before == (1,)


def test_module_copies():
    compiled = compile(Net().eval())
    expected = compiled(X)
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(twin(X), expected)
        with torch.no_grad():
            twin.linear.weight.zero_()
        assert not torch.equal(twin(X), expected)
    assert torch.equal(compiled(X), expected)


def test_hooks_on_original_and_wrapper():
    compiled = compile(Net().eval())
    expected = compiled(X)
    inner = compiled._orig_mod.register_forward_hook(lambda module, args, result: result + 1)
    outer = compiled.register_forward_hook(lambda module, args, result: result * 2)
    assert torch.equal(compiled(X), (expected + 1) * 2)
    inner.remove()
    assert torch.equal(compiled(X), expected * 2)
    outer.remove()
    assert torch.equal(compiled(X), expected)


def test_compiled_inside_compiled():
    inner = compile(add)

    @compile
    def outer(x):
        return inner(x) * 2

    assert torch.equal(outer(X), (X + 1) * 2) and torch.equal(outer(X), (X + 1) * 2)
    assert counts("graphs") == (1,)


def test_is_compiling():
    def program(x):
        return x + (1 if stator.is_compiling() else 0), torch.compiler.is_compiling()

    compiled = compile(program)
    for _ in range(2):
        result, flag = compiled(X)
        assert torch.equal(result, X + 1) and flag is True
    assert program(X)[1] is False
    assert counts("graphs", "recompiles") == (1, 0)


@pytest.mark.parametrize("exclude", [stator.disable, torch.compiler.disable])
def test_excluded_functions(exclude):
    @exclude
    def secret(x):
        return x + (1 if torch.compiler.is_compiling() else 2)

    def program(x):
        return secret(x) * 2

    with pytest.raises(stator.Unsupported) as caught:
        compile(program)(X)
    assert caught.value.break_id == "disabled-function"
    assert torch.equal(stator.compile(program, backend="eager")(X), (X + 2) * 2)


def test_excluded_function_compiled_itself_runs_eagerly():
    compiled = stator.compile(stator.disable(add), backend="eager")
    assert torch.equal(compiled(X), X + 1) and counts("graphs") == (0,)


def test_unsupported_shows_the_line():
    def program(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(stator.Unsupported, match=r"if x\.sum\(\) > 0:") as caught:
        compile(program)(X)
    error = caught.value
    assert error.break_id == "data-dependent-branch"
    assert error.location.file == __file__ and error.location.lineno == program.__code__.co_firstlineno + 1


def test_without_fullgraph_it_runs_and_the_reason_is_recorded():
    def program(x):
        return x if x.sum() > 0 else -x

    compiled = stator.compile(program, backend="eager")
    assert torch.equal(compiled(X), X) and torch.equal(compiled(-X), X)
    assert stator.stats()["frames_skipped"] + stator.stats()["graph_breaks"] > 0


def test_recompile_limit():
    def program(x, n):
        return x + len(n)

    compiled = stator.compile(program, backend="eager", dynamic=False, options={"recompile_limit": 3})
    for n in range(6):
        assert torch.equal(compiled(X, "a" * n), X + n)
    assert stator.stats()["graphs"] <= 4
    strict = stator.compile(program, backend="eager", dynamic=False, fullgraph=True, options={"recompile_limit": 3})
    with pytest.raises(stator.RecompileLimit):
        for n in range(6):
            strict(X, "a" * n)


def test_reset_forgets_entries():
    compiled = compile(add)
    compiled(X)
    stator.reset()
    assert counts("graphs") == (0,)
    compiled(X)
    assert counts("graphs", "recompiles") == (1, 0)


def test_backend_gets_a_graph_and_inputs():
    seen = []

    def backend(graph, inputs):
        seen.append((graph, inputs))
        return graph.forward

    assert torch.equal(stator.compile(add, backend=backend)(X), X + 1)
    ((graph, inputs),) = seen
    assert isinstance(graph, torch.fx.GraphModule) and len(inputs) == 1 and inputs[0].shape == X.shape


def test_backend_errors():
    def backend(graph, inputs):
        raise ValueError("no")

    with pytest.raises(stator.BackendError, match="ValueError: no") as caught:
        stator.compile(add, backend=backend, fullgraph=True)(X)
    assert isinstance(caught.value.__cause__, ValueError)


def test_threads_share_a_compiled_function():
    compiled = compile(lambda x, n: x * n)
    wrong = []

    def work(n):
        for _ in range(50):
            if not torch.equal(compiled(X, n), X * n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
