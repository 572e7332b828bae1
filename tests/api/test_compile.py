"""`stator.compile` as users of torch.compile know it; what it does with the function is replaced here."""

import copy
import inspect
import types

import pytest
import torch

import stator
from stator import api
from stator.options import Options


class Compiled:
    """Stands in for the compiled callable: counts calls and binds like a function."""

    def __init__(self, fn, options):
        self.__wrapped__, self.options, self.calls = fn, options, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(api, "make_compiled", Compiled)


def double(x):
    return x * 2


def test_signature_is_that_of_torch_compile():
    parameters = inspect.signature(stator.compile).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert defaults == {
        "model": None,
        "fullgraph": False,
        "dynamic": None,
        "backend": "inductor",
        "mode": None,
        "options": None,
        "disable": False,
    }
    assert [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY] == list(defaults)[1:]


def test_function():
    compiled = stator.compile(double, backend="eager", fullgraph=True)
    assert compiled(3) == 6 and compiled.calls == 1
    assert compiled.options == Options(fullgraph=True, backend="eager")


def test_decorator_without_arguments():
    @stator.compile
    def triple(x):
        return x * 3

    assert isinstance(triple, Compiled) and triple(2) == 6


def test_decorator_with_arguments():
    @stator.compile(backend="eager", dynamic=True)
    def triple(x):
        return x * 3

    assert triple(2) == 6 and triple.options.dynamic is True


def test_method_in_a_class_body():
    class Scale:
        factor = 5

        @stator.compile(backend="eager")
        def apply(self, x):
            return x * self.factor

    scale = Scale()
    assert scale.apply(2) == 10
    assert Scale.__dict__["apply"].calls == 1


def test_bound_method():
    class Scale:
        factor = 5

        def apply(self, x):
            return x * self.factor

    compiled = stator.compile(Scale().apply, backend="eager")
    assert compiled(2) == 10 and compiled.calls == 1


def test_callable_object():
    class Adder:
        def __call__(self, x):
            return x + 1

    compiled = stator.compile(Adder(), backend="eager")
    assert compiled(1) == 2 and compiled.calls == 1


def test_class_of_callables():
    @stator.compile(backend="eager")
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n

    assert isinstance(Adder, type)
    assert Adder(2)(1) == 3
    assert Adder.__call__.calls == 1


def test_class_of_modules():
    @stator.compile(backend="eager")
    class Net(torch.nn.Module):
        def forward(self, x):
            return x + 1

    assert Net()(torch.ones(1)) == 2
    assert Net.__call__.calls == 1
    assert "__call__" not in vars(torch.nn.Linear)


def test_class_whose_instances_cannot_be_called():
    with pytest.raises(stator.InvalidArgument, match="nothing to compile"):
        stator.compile(type("Plain", (), {}))


def test_each_call_has_its_own_result():
    assert stator.compile(double) is not stator.compile(double)


def test_disable_gives_the_model_back():
    module = torch.nn.Linear(1, 1)
    assert stator.compile(module, disable=True) is module
    assert stator.compile(disable=True)(double) is double


@pytest.mark.parametrize("value", [3, "name", [1], torch.ones(1)])
def test_things_that_cannot_be_called(value):
    with pytest.raises(TypeError, match="can be called"):
        stator.compile(value)
    with pytest.raises(stator.StatorError):
        stator.compile()(value)


def test_unknown_backend():
    with pytest.raises(stator.InvalidBackend, match="no backend named 'inducto'.*inductor"):
        stator.compile(double, backend="inducto")
    with pytest.raises(stator.InvalidBackend):
        stator.compile(backend="nothing-like-it")


def test_module():
    module = torch.nn.Linear(2, 2)
    compiled = stator.compile(module, backend="eager")
    x = torch.ones(1, 2)
    assert torch.equal(compiled(x), module(x))
    assert compiled.forward.calls == 1


def test_module_copies_keep_their_settings():
    compiled = stator.compile(torch.nn.Linear(2, 2), backend="eager", fullgraph=True)
    twin = copy.deepcopy(compiled)
    assert twin.forward.options == compiled.forward.options
    assert twin.forward is not compiled.forward and twin.weight is not compiled.weight


def test_statistics():
    stator.reset()
    assert stator.stats() == {
        "frames_captured": 0,
        "frames_skipped": 0,
        "graph_breaks": 0,
        "graphs": 0,
        "uncompiled": 0,
        "recompiles": 0,
        "captured_codes": [],
    }
