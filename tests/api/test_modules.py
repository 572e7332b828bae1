"""A compiled module behaves as the module it was made from."""

import copy
import gc
import inspect
import pickle
import weakref

import pytest
import torch
from torch import nn

from stator.runtime.modules import CompiledModule, compiled_module


class Net(nn.Module):
    scale: float

    def __init__(self, scale=2.0):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("offset", torch.ones(2))
        self.scale = scale

    def forward(self, x, *, bias=None):
        return self.linear(x) * self.scale + (self.offset if bias is None else bias)

    def helper(self):
        return self.scale


class Counted:
    """A stand-in for compiled code that counts its calls."""

    def __init__(self, fn):
        self.fn, self.calls = fn, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.fn(*args, **kwargs)


X = torch.ones(1, 2)


@pytest.fixture
def net():
    return compiled_module(Net(), Counted)


def test_calls(net):
    assert torch.equal(net(X), net._orig_mod(X))
    assert torch.equal(net(X, bias=1.0), net._orig_mod(X, bias=1.0))
    assert torch.equal(net.forward(X), net(X))
    assert net.forward.calls == 4
    assert isinstance(net, nn.Module) and callable(net)


def test_state_dict_has_the_keys_of_torch_compile(net):
    assert list(net.state_dict()) == [f"_orig_mod.{key}" for key in net._orig_mod.state_dict()]
    assert [name for name, _ in net.named_parameters()] == ["_orig_mod.linear.weight", "_orig_mod.linear.bias"]
    other = compiled_module(Net(), Counted)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(X), net(X))
    assert len(list(net.parameters())) == 2 and len(list(net.children())) == 1


def test_same_keys_as_torch_compile(net):
    theirs = torch.compile(net._orig_mod, backend="eager")
    assert list(theirs.state_dict()) == list(net.state_dict())
    assert theirs._orig_mod is net._orig_mod


def test_attributes_are_those_of_the_original(net):
    original = net._orig_mod
    assert net.scale == 2.0 and net.helper() == 2.0 and net.linear is original.linear
    net.scale = 3.0
    net.extra = nn.Linear(1, 1)
    assert original.scale == 3.0 and original.extra is net.extra and "extra" in original._modules
    del net.extra
    assert not hasattr(original, "extra")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        net.nothing
    assert {"helper", "_orig_mod", "scale"} <= set(dir(net)) | {"_orig_mod"}


def test_modes_and_moves(net):
    original = net._orig_mod
    assert net.eval() is net and not original.training and not original.linear.training and not net.training
    assert net.train() is net and original.training
    net.training = False
    assert original.training is False
    assert net.to(torch.float64) is net and original.linear.weight.dtype is torch.float64
    net.requires_grad_(False)
    assert not original.linear.weight.requires_grad
    net.register_buffer("late", torch.zeros(1))
    assert net.half() is net


def test_deepcopy_and_pickle(net):
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(twin, CompiledModule) and twin.forward is not net.forward
        assert torch.equal(twin(X), net(X)) and twin.linear.weight is not net.linear.weight
    original = pickle.loads(pickle.dumps(net._orig_mod))
    assert type(original) is Net and torch.equal(original(X), net(X))
    assert torch.equal(copy.deepcopy(net._orig_mod)(X), net(X))


def test_hooks_on_the_wrapper(net):
    seen = []
    handles = [
        net.register_forward_pre_hook(lambda module, args: seen.append(("pre", module))),
        net.register_forward_hook(lambda module, args, result: result + 1),
        net.register_forward_hook(lambda module, args, kwargs, result: seen.append(kwargs), with_kwargs=True),
    ]
    assert torch.equal(net(X, bias=2.0), net._orig_mod(X, bias=2.0) + 1)
    assert seen == [("pre", net), {"bias": 2.0}]
    for handle in handles:
        handle.remove()
    assert torch.equal(net(X), net._orig_mod(X)) and len(seen) == 2
    assert net.forward.calls == 2


def test_backward_hooks_on_the_wrapper(net):
    seen = []
    handle = net.register_full_backward_hook(lambda module, into, out: seen.append(module))
    net(X.clone().requires_grad_()).sum().backward()
    assert seen == [net] and net._orig_mod._is_full_backward_hook is None
    handle.remove()
    net(X.clone().requires_grad_()).sum().backward()
    assert len(seen) == 1


def test_hooks_on_the_original(net):
    handle = net._orig_mod.register_forward_hook(lambda module, args, result: result + 1)
    plain = Net()
    plain.load_state_dict(net._orig_mod.state_dict())
    assert torch.equal(net(X), plain(X) + 1)
    handle.remove()
    assert torch.equal(net(X), plain(X))


def test_replaced_hooks_and_forward(net):
    net._forward_hooks = {0: lambda module, args, result: 5}
    assert net(X) == 5
    net._forward_hooks.clear()
    net.forward = lambda x: 7
    assert net(X) == 7
    net._compiled_call_impl = lambda x: 8
    assert net(X) == 8


def test_containers_are_containers():
    layers = compiled_module(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Counted)
    assert len(layers) == 2 and isinstance(layers[1], nn.ReLU) and list(layers) == [layers[0], layers[1]]
    layers[1] = nn.Tanh()
    assert isinstance(layers._orig_mod[1], nn.Tanh)
    assert isinstance(copy.deepcopy(layers), CompiledModule)
    table = compiled_module(nn.ModuleDict({"a": nn.ReLU()}), Counted)
    assert "a" in table and list(table.keys()) == ["a"]


def test_others_are_not(net):
    assert bool(net)
    with pytest.raises(TypeError):
        len(net)
    with pytest.raises(TypeError):
        iter(net)


def test_signature(net):
    assert inspect.signature(net.forward) == inspect.signature(net._orig_mod.forward)


def test_lazy_modules_make_their_parameters_first():
    net = compiled_module(nn.Sequential(nn.LazyLinear(2), nn.ReLU()), Counted)
    assert net(X).shape == (1, 2) and net.forward.calls == 0
    assert net(X).shape == (1, 2) and net.forward.calls == 1


def test_inside_another_module(net):
    outer = nn.Sequential(net, nn.ReLU())
    assert torch.equal(outer(X), torch.relu(net(X)))
    assert "0._orig_mod.linear.weight" in outer.state_dict()
    outer.eval()
    assert not net._orig_mod.training


def test_nothing_keeps_a_wrapper_alive():
    net = compiled_module(Net(), Counted)
    net.register_forward_hook(print).remove()
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None


def test_repr(net):
    assert repr(net).startswith("CompiledModule(\n  (_orig_mod): Net(")


def test_the_class_has_the_signature_of_the_original_class(net):
    """Trainers look at `type(model).forward` to find out which arguments there are."""
    assert inspect.signature(type(net).forward) == inspect.signature(Net.forward)
    assert torch.equal(type(net).forward(net, X, bias=1.0), net._orig_mod(X, bias=1.0))
    assert net.forward.calls == 1


def test_the_class_does_not_keep_the_original_class_alive():
    class Short(nn.Module):
        def forward(self, x):
            return super().extra_repr()  # so the function holds its class

    wrapper = type(compiled_module(Short(), Counted))
    alive = weakref.ref(Short)
    del Short
    gc.collect()
    assert alive() is None
    assert callable(wrapper.forward)
