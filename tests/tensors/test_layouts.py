"""Layouts that fake tensors do not tell as eager has them: programs that rely on them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.harness import check


class Norm(nn.Module):
    """Normalises channels that come last, as many encoders do."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(x.transpose(1, 2))
        z = y.transpose(1, 2).contiguous()
        return y.is_contiguous(), y.stride(), y.view(-1), z.view(x.shape[0], -1), self.norm(x[:, 0].t()[:4].t())


@pytest.mark.parametrize("dynamic", [None, True])
def test_batch_norm_of_transposed_vectors(dynamic):
    check(Norm(), torch.randn(3, 5, 4), backward=True, dynamic=dynamic)
    check(Norm().eval(), torch.randn(3, 5, 4), backward=True, dynamic=dynamic)


def test_batch_norm_of_transposed_vectors_traced():
    check(Norm(), torch.randn(3, 5, 4), backward=True, backend="aot_eager", tolerance=1e-5)


def test_log_sigmoid():
    def program(x):
        y = F.logsigmoid(x.t())
        return y, y.stride(), y.t().contiguous().view(-1)

    check(program, torch.randn(3, 5), backward=False)
    check(program, torch.randn(3, 5, requires_grad=True), dynamic=True)


def swapped(x):
    p = x.view(-1, 1, 4).transpose(0, 1)
    made = (p * 2, p > 0, torch.where(p > 0, p, 1.0), torch.zeros_like(p), torch.relu(p), p + p)
    return [tensor.stride() for tensor in made]


def with_one_channel(x):
    q = x.view(3, 4, 1, 1).permute(0, 2, 3, 1).contiguous(memory_format=torch.channels_last)
    return q.stride(), (q * 2).stride(), torch.exp(q).stride(), (q + q.transpose(1, 2).transpose(1, 2)).stride()


@pytest.mark.parametrize("program", [swapped, with_one_channel])
def test_strides_of_dimensions_of_one(program):
    check(program, torch.randn(3, 4))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_powers_of_numbers_lie_row_by_row(backend):
    def program(x):
        powers = 2**x, torch.pow(3.0, x), pow(2, x), torch.float_power(2, x)
        return powers, [one.stride() for one in powers], [one.view(-1) + 1 for one in powers], (x**2).stride()

    check(program, torch.rand(2, 3).t(), backend=backend, tolerance=1e-6)


def test_normal_numbers_lie_row_by_row():
    check(lambda x: [torch.normal(*args).stride() for args in ((x, x), (x, 1.0), (0.0, x))], torch.rand(2, 3).t())


@pytest.mark.parametrize("operator", [torch.add, torch.lt, torch.div, torch.maximum])
def test_operands_of_another_type_are_copied_before(operator):
    """The copy has no gaps, which decides the stride of a dimension of one."""
    memory = torch.arange(8)
    program = lambda x, n: operator(x, n).stride()
    for strides in [(2, 1), (3, 5), (0, 1), (1, 2)]:
        for others in [(1, 1), (1, 2), (2, 2)]:
            number = memory.as_strided((2, 1), strides)
            check(program, torch.rand(8).as_strided((2, 1), others), number)
            check(program, number.int(), memory.as_strided((2, 1), others))
