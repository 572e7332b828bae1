"""Which gradients a backward through a compiled graph leaves undefined: those that eager does."""

import copy

import pytest
import torch
from torch import nn

import stator


class Heads(nn.Module):
    """Each output leads to some of the parameters."""

    def __init__(self, program):
        super().__init__()
        self.program = program
        self.a, self.b, self.c = (nn.Linear(3, 3) for _ in range(3))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.program(self, x)


def written(m, x):
    y, z = m.a(x), torch.zeros(4, 3)
    z[0] = m.b(x)[0]
    part = y[1:]
    part.mul_(m.c(x)[1:])
    return y, z, m.b(x).detach(), y.t()


def broken(m, x):
    y, unused = m.a(x), m.b(x)
    if y.sum() > 100:
        return unused, y
    return m.c(y), y


def changed(m, x):
    y = x * 1
    h = m.b(x)
    y.copy_(m.a(x))
    return y, h, m.norm(y)


def detached(m, x):
    y = m.a(x)
    with torch.no_grad():
        z = m.b(x)
    masked = torch.where(m.c(x) > 0, y, y.detach() + m.c(x).data)
    return (masked + z, masked * m.norm(x).detach())


def single(m, x):
    probabilities = m.b(x).softmax(-1).data
    m.c.weight.data.mul_(0.5)
    return (m.a(x) + probabilities.argmax(-1, keepdim=True) + m.c.weight.data.sum(),) * 2


def behind(m, x):
    """The graph behind the break has inputs with a history that it only looks at, or gives views of."""
    y, z, seen = m.a(x), m.b(x), m.c(x)
    stator.graph_break()
    scale = z.detach().cos() * seen.data.exp() + 1
    return y * scale, (m.norm.weight + y.detach()) * scale, z.reshape(2, -1)


PROGRAMS = [written, broken, changed, detached, single, behind]


def gradients(module, results, i):
    for parameter in module.parameters():
        parameter.grad = None
    results[i].sum().backward()
    return {name: parameter.grad for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_undefined_gradients(program):
    eager = Heads(program)
    module = copy.deepcopy(eager)
    compiled = stator.compile(module, backend="aot_eager")
    for i in range(2):
        x = torch.randn(4, 3)
        expected, found = gradients(eager, eager(x), i), gradients(module, compiled(x), i)
        assert [name for name, grad in found.items() if grad is None] == [
            name for name, grad in expected.items() if grad is None
        ]
        for name, grad in expected.items():
            if grad is not None:
                torch.testing.assert_close(found[name], grad)


@pytest.mark.parametrize("make", [lambda seen: seen.append, lambda seen: lambda grad: grad * 2])
def test_hooks_of_what_no_gradient_leads_to_are_not_called(make):
    def grads(compile):
        torch.manual_seed(0)
        model, seen = Heads(lambda m, x: (m.a(x), m.b(x))), []
        for parameter in (model.a.weight, model.b.weight):
            parameter.register_hook(make(seen))
        first, _ = compile(model)(torch.ones(2, 3))
        first.sum().backward()
        return len(seen), [parameter.grad for parameter in model.parameters()]

    (called, expected), (calls, found) = (
        grads(lambda model: model),
        grads(lambda model: stator.compile(model, backend="aot_eager")),
    )
    assert calls == called
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or torch.equal(mine, theirs)
