"""Parameters and copies that a program makes."""

import copy
from typing import Any

import pytest
import torch

from stator.report import events
from tests.harness import check


class Copying(torch.nn.Module):
    """Runs a changed copy of a part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

    def forward(self, x: Any) -> Any:
        part = copy.deepcopy(self.part)
        with torch.no_grad():
            part[0].weight.mul_(2)
        return part(x).sum(), part[0].weight is not self.part[0].weight


def made(x: Any) -> Any:
    layer = torch.nn.Linear(3, 2)
    weight = torch.nn.Parameter(torch.ones(2))
    loss = (layer(x) * weight).sum()
    loss.backward()
    return weight.grad, weight.is_leaf, isinstance(weight, torch.nn.Parameter), layer.bias.grad


def kept(x: Any) -> Any:
    return torch.nn.Parameter(x * 2), torch.nn.Parameter(torch.arange(3), requires_grad=False)


def shared(x: Any) -> Any:
    data = x * 2
    weight = torch.nn.Parameter(data)
    with torch.no_grad():
        weight.add_(1)
    return data, weight


def copied(x: Any) -> Any:
    y = copy.deepcopy({"a": x, "b": [x, 1]})
    y["a"].add_(1)
    return y, y["a"] is y["b"][0], x


@pytest.mark.parametrize("program", [made, kept, shared], ids=lambda program: program.__name__)
def test_parameters(program: Any) -> None:
    check(program, torch.randn(4, 3), expect_graphs=1)
    check(program, torch.randn(4, 3), backend="aot_eager", fullgraph=False, expect_breaks=None, tolerance=1e-6)


def test_copies() -> None:
    check(copied, torch.randn(3), expect_graphs=1)
    check(copied, torch.randn(4, 3).t(), expect_graphs=1)
    strided = torch.randn(4, 3)[:, :2]  # the copy has the same strides
    check(copied, strided, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    torch.manual_seed(0)
    copy.deepcopy(torch.nn.Linear(1, 1))  # what copyreg learns about, it learns now
    check(Copying(), torch.randn(4, 3), expect_graphs=1, backward=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_empty_tensor_that_grows_and_is_expanded(backend):
    def program(w):
        mask = w.new().resize_((w.size(0), 1)).bernoulli_(0.5).expand_as(w)
        other = torch.empty(0)
        same = other.resize_(4).fill_(2)
        return mask * w, other.expand(2, 4), same is other

    check(program, torch.randn(3, 2), backend=backend)


def copied_views(x):
    y = x * 2
    view = y.detach()
    a, b = copy.deepcopy(view), copy.deepcopy({"y": (y + 1).t(), "x": view})
    b["y"].add_(1)
    a.mul_(3)
    return y, view, a, b


def test_copies_of_views():
    check(copied_views, vary=[(torch.randn(n, 3),) for n in (4, 4, 6, 5)], expect_graphs=2, expect_recompiles=1)


def test_copies_made_together_share_memory():
    def program(x):
        y = (x * 2).detach()
        copied = copy.deepcopy([y, y.view(-1)])
        copied[0].add_(1)
        return copied, y

    calls = [(torch.randn(n, 3),) for n in (4, 6, 5)]
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)


def test_what_cannot_be_copied_is_copied_by_python_as_a_whole():
    def program(x):
        y = (x * 2).detach()
        copied = copy.deepcopy([y, y.view(-1)])
        return copied[0] * 3 + 1

    calls = [(torch.randn(n, 3),) for n in (4, 6, 5, 7)]
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=2)


def grown(x, y):
    y.resize_(x.shape)
    y.fill_(1)
    return y.sum(), x * 2


def grown_like(x, y):
    z = x + y.sum()
    y.resize_as_(x).zero_()
    return z, y + 1


def given_out(x, y):
    torch.add(x, 1, out=y)
    return y.sum(), x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [grown, grown_like, given_out], ids=lambda program: program.__name__)
def test_tensors_from_outside_that_get_more_memory(program, backend):
    given = [(torch.randn(n, 4), torch.zeros(0)) for n in (3, 5, 2)]
    breaks = 0 if backend == "eager" else None
    with events.recording("error") as errors:
        check(program, vary=given, backend=backend, fullgraph=False, expect_breaks=breaks, expect_recompiles=None)
    assert not errors
