"""Parameters, buffers and constants, and effects that an exported program cannot have."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch.export import Dim

import stator
from tests.export.same import inputs_of, same

batch = Dim("batch")


class Members(nn.Module):
    """A shared parameter, a buffer that is not saved, and plain tensors as attributes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.plain = torch.ones(4)
        self.inner = nn.Module()
        self.inner.shift = torch.zeros(4)
        self.register_buffer("hidden", torch.ones(4), persistent=False)
        self.register_buffer("unused", torch.ones(1))

    def forward(self, x):
        return self.second(self.first(x)) + self.plain + self.inner.shift + self.hidden


def test_signature_is_that_of_torch():
    model, args, shapes = Members(), (torch.randn(2, 4),), {"x": {0: batch}}
    program = same(model, args, dynamic_shapes=shapes, save=True, more=[((torch.randn(5, 4),), {})])
    theirs = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    assert inputs_of(program) == inputs_of(theirs)
    assert program.state_dict.keys() == theirs.state_dict.keys()
    assert program.constants.keys() == theirs.constants.keys()
    assert program.range_constraints.keys() and [str(r) for r in program.range_constraints.values()] == [
        str(r) for r in theirs.range_constraints.values()
    ]


def test_parameters_are_those_of_the_model():
    model = Members()
    program = stator.export(model, (torch.randn(2, 4),))
    assert program.state_dict["first.weight"] is model.first.weight
    with torch.no_grad():
        model.first.weight.zero_()
    x = torch.randn(2, 4)
    torch.testing.assert_close(program.module()(x), model(x))


def test_training_through_the_program():
    model, x = Members(), torch.randn(3, 4)
    run = stator.export(model, (x,)).module()
    run(x).sum().backward()
    grads = {name: p.grad.clone() for name, p in run.named_parameters()}
    model.zero_grad()
    model(x).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(grads[name], parameter.grad)


class Statistics(nn.Module):
    """Buffers that change: in place, by assignment, in a submodule, swapped."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.inner = nn.Module()
        self.inner.register_buffer("total", torch.zeros(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("a", torch.zeros(2))
        self.register_buffer("b", torch.ones(2))

    def forward(self, x):
        self.steps += 1
        self.inner.total = self.inner.total + x.sum(0)
        self.a, self.b = self.b, self.a + 1
        return self.norm(x) * self.inner.total, self.a


def test_buffers_that_change():
    more = [((torch.randn(n, 4),), {}) for n in (3, 6)]
    program = same(Statistics(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: batch}}, save=True, more=more)
    written = program.run_decompositions().graph_signature.buffers_to_mutate
    assert set(written.values()) == {
        "steps", "inner.total", "a", "b", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
    }  # fmt: skip


def test_exporting_changes_nothing():
    model, x = Statistics(), torch.randn(3, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stator.export(model, (x,))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


# ---- effects that have no place in a program ------------------------------------------------------

COUNT = 0
HISTORY = []
TABLE = {"a": 1}
TENSOR = torch.zeros(4)


def sets_global(x):
    global COUNT
    COUNT += 1
    return x


def appends(x):
    HISTORY.append(1)
    return x


def sets_item(x):
    TABLE["b"] = 2
    return x


def writes_tensor(x):
    TENSOR.add_(1)
    return x + TENSOR


def sets_closure():
    calls = 0

    def inner(x):
        nonlocal calls
        calls = calls + 1
        return x * calls

    return inner


class Model(nn.Module):
    """Does what `how` says."""

    def __init__(self, how):
        super().__init__()
        self.how, self.calls = how, 0
        self.register_buffer("state", torch.zeros(4))
        self.plain = torch.zeros(4)

    def forward(self, x):
        return getattr(self, self.how)(x)

    def count(self, x):
        self.calls += 1
        return x

    def keep(self, x):
        self.last = x * 2
        return x

    def grow(self, x):
        self.state = torch.cat([self.state, x])
        return x

    def forget(self, x):
        self.state = None
        return x

    def write(self, x):
        self.plain.add_(x)
        return x

    def mark_class(self, x):
        Model.seen = True
        return x


def adds_key(parts):
    parts["y"] = parts["x"] + 1
    return parts["y"]


def prints_tensor(x):
    print(x)
    return x


def sets_environment(x):
    os.environ["STATOR_EXPORT_TEST"] = "1"
    return x


def leaves_grad_mode(x):
    torch.set_grad_enabled(False)
    return x


# Program -> what the report says, and the line it shows.
REFUSED = {
    "global": (sets_global, "it sets the global variable 'COUNT' of module tests.export.test_state", "COUNT += 1"),
    "list": (appends, "it changes the list `HISTORY`", None),
    "dict": (sets_item, "it changes the dict `TABLE`", None),
    "tensor": (writes_tensor, "it writes to the tensor `TENSOR`, which is neither", "TENSOR.add_(1)"),
    "closure": (sets_closure(), "it sets `calls`, a variable of an enclosing function", "calls = calls + 1"),
    "attribute": (Model("count"), "it sets `self.calls`", "self.calls += 1"),
    "new attribute": (Model("keep"), "register it with register_buffer('last', ...)", "self.last = x * 2"),
    "shape of buffer": (Model("grow"), "buffer 'state' becomes another kind of tensor: torch.float32 of", None),
    "no buffer": (Model("forget"), "it sets buffer 'state', which must be a tensor before and after", None),
    "plain tensor": (Model("write"), "it writes to the tensor `self.plain`", "self.plain.add_(x)"),
    "class": (Model("mark_class"), "it sets the attribute 'seen' of class Model", None),
    "print": (prints_tensor, "print shows a tensor", None),
    "environment": (sets_environment, "it leaves the state of the process changed, through putenv", None),
    "grad mode": (leaves_grad_mode, "it leaves the state of the process changed", None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_effect_is_refused(name):
    model, text, line = REFUSED[name]
    with pytest.raises(stator.ExportError) as raised:
        stator.export(model, (torch.randn(4),))
    report = str(raised.value)
    assert text in report and "register_buffer" in report
    assert line is None or line in raised.value.stack[-1].text
    assert (COUNT, HISTORY, TABLE, float(TENSOR.sum())) == (0, [], {"a": 1}, 0.0)
    assert torch.is_grad_enabled() and "STATOR_EXPORT_TEST" not in os.environ


def test_new_key_of_an_argument_is_refused():
    with pytest.raises(stator.ExportError, match="it changes the dict `parts`"):
        stator.export(adds_key, ({"x": torch.randn(4)},))


def test_set_and_set_back_is_no_effect():
    def scoped(x):
        global COUNT
        COUNT = 5
        y = x + COUNT
        COUNT = 0
        return y

    same(scoped, (torch.randn(4),))
