"""What kernels say of types that fake tensors accept, and writes into a history that need no fake tensors."""

import pytest
import torch
import torch.nn.functional as F

from stator.tensors import kernels, planning
from tests.harness import check
from tests.tensors.capturing import record

W = torch.randn(4, 4)
BROKEN = dict(fullgraph=False, expect_graphs=None, expect_breaks=None)

REFUSED = {
    "mm": lambda x: x @ W.double(),
    "linear": lambda x: F.linear(x, W, W[0].double()),
    "layer_norm": lambda x: F.layer_norm(x, (4,), W[0].double()),
    "sub": lambda x: x - (x > 0),
    "var": lambda x: x.long().var(),
    "maximum": lambda x: torch.maximum(x, x.to(torch.complex64)),
    "mul_": lambda x: x.long().mul_(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_about_types_is_raised_where_the_program_expects_it(name):
    refused = REFUSED[name]

    def program(x):
        try:
            return refused(x)
        except RuntimeError as error:
            return x * 2, str(error)

    check(program, torch.randn(4, 4), **BROKEN)
    check(program, torch.randn(4, 4), **BROKEN, dynamic=True)


LARGE = {
    "linear": lambda x: F.linear(x.double(), torch.ones(16, 128), torch.ones(16)),
    "conv2d": lambda x: F.conv2d(x.view(2, 4, 80, 128).byte(), torch.ones(3, 4, 7, 7), padding=3),
    "layer_norm": lambda x: F.layer_norm(x, (128,), torch.ones(128).double()),
    "mul_": lambda x: x.long().mul_(x),
}


@pytest.mark.parametrize("name", LARGE)
def test_an_error_about_types_of_many_elements(name):
    def program(x):
        try:
            return LARGE[name](x)
        except RuntimeError as error:
            return x * 2, str(error)

    check(program, vary=[torch.ones(640, 128), torch.ones(640, 128)], **BROKEN)


def test_many_elements_of_types_that_go_together(monkeypatch):
    try_on, tried = kernels._refuses, []

    def spy(*args):
        tried.append((args[-1] != {}, try_on(*args)))
        return tried[-1][1]

    monkeypatch.setattr(kernels, "_refuses", spy)
    places = torch.zeros(640, dtype=torch.int64)

    def program(x):
        return x.index_add(0, places, x), F.cross_entropy(x, places), torch.addcmul(x, x.double(), x)

    check(program, torch.ones(640, 128))
    assert len(tried) >= 3
    assert set(tried) == {(True, None)}, "all elements were calculated with"


NO_DIMENSION = {
    "softmax": lambda x: F.softmax(x, -3),
    "softmin": lambda x: F.softmin(x, 2),
    "sort": lambda x: x.sort(2),
    "stable sort": lambda x: torch.sort(x, stable=True, dim=5),
    "argsort": lambda x: x.argsort(-4),
    "slice_scatter": lambda x: x.slice_scatter(x, 3),
    "sum": lambda x: x.sum(2),
    "cat": lambda x: torch.cat([x, x], 2),
    "roll": lambda x: x.sum().roll(1, 0),
}
OTHERS = {
    "uniform_": lambda x: x.clone().uniform_(3, -1),
    "random_": lambda x: x.clone().random_(5, 2),
    "random_ to": lambda x: x.clone().random_(-3),
    "init": lambda x: torch.nn.init.uniform_(x.clone(), 3, -1),
    "bucketize": lambda x: torch.bucketize(x, x),
    "masked_select": lambda x: x.masked_select(x),
    "power": lambda x: x.long() ** -1,
    "max of none": lambda x: x[:0].max(),
    "mode of none": lambda x: x[:0].mode(0),
    "pool of none": lambda x: F.adaptive_avg_pool1d(x[None, :, :0], 2),
    "interpolated none": lambda x: F.interpolate(x[None, None, :0], (2, 2), mode="bilinear"),
    "__radd__": lambda x: torch.Tensor.__radd__(1, x),
    "__add__": lambda x: torch.Tensor.__add__(1, x),
}


@pytest.mark.parametrize("name", NO_DIMENSION)
def test_an_error_about_dimensions_is_raised_where_the_program_expects_it(name):
    refused = NO_DIMENSION[name]

    def program(x):
        try:
            refused(x)
        except IndexError as error:
            return x * 2, str(error)
        return x

    check(program, torch.randn(4, 4), **BROKEN)
    check(program, torch.randn(4, 4), **BROKEN, dynamic=True)


@pytest.mark.parametrize("name", OTHERS)
def test_other_errors_are_raised_where_the_program_expects_them(name):
    refused = OTHERS[name]

    def program(x):
        try:
            refused(x)
        except (RuntimeError, TypeError, IndexError) as error:
            return x * 2, str(error), torch.rand(1)
        return x

    check(program, torch.randn(4, 4), **BROKEN)


def test_what_nothing_is_made_of_is_captured_whole():
    def program(x):
        none = x[:0]
        return none.sum(), none.max(1), none.cumsum(0), F.relu(none), none.new_zeros(2, 3), torch.cat([none, x])

    check(program, torch.randn(4, 4))


def test_bounds_of_random_numbers_are_looked_at_without_drawing():
    check(lambda x: (x.uniform_(-1, 3), x.random_(2, 9), torch.rand(2)), torch.zeros(3))


def test_types_that_a_kernel_takes_are_captured_whole():
    def program(x, index):
        return x[index].half() + x.long() * index[:, None], torch.where(x > 0, x.double(), 0)

    check(program, torch.randn(3, 4), torch.tensor([0, 1, 0]))


def test_writes_into_a_history_ask_once(monkeypatch):
    asked = []
    propagate = planning.propagate
    monkeypatch.setattr(planning, "propagate", lambda func, *rest: asked.append(func) or propagate(func, *rest))

    def program(x, w):
        out = torch.zeros(20, 3)
        for t in range(20):
            out[t] = w * t
        return out

    record(program, {"x": torch.ones(3), "w": torch.nn.Parameter(torch.ones(3))})
    assert len(asked) <= 1


def test_rows_of_a_result_written_one_by_one():
    def program(x, w):
        out = x.new_zeros(x.shape[0], 5, 3)
        for t in range(5):
            out[:, t] = torch.tanh(x[:, t] * w)
            out[0, t] = t
        return out

    w = torch.nn.Parameter(torch.randn(3))
    check(program, torch.randn(2, 5, 3), w, backward=True)
    check(program, torch.randn(2, 5, 3), w, backward=True, dynamic=True)


def test_a_backward_kernel_with_memory_of_its_own_is_not_tried():
    rnn = torch.nn.LSTM(3, 4)

    def program(x):
        return torch.autograd.grad(rnn(x)[0].sum(), rnn.weight_hh_l0)

    check(program, torch.randn(5, 2, 3))
