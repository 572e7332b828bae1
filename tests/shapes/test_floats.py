"""Floats that change become 0-d tensors of the graph where an operation takes them."""

from __future__ import annotations

import math

import pytest
import torch

import stator
from tests.harness import check

VALUES = (0.1, 0.2, 0.35, 1e-3, 7.0)


def sweep(fn, backend="eager", recompiles=1, values=VALUES):
    vary = [(torch.rand(4) + 1, value) for value in values]
    graphs = recompiles + 1
    check(fn, vary=vary, expect_recompiles=recompiles, expect_graphs=graphs, tolerance=1e-6, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
class TestOperations:
    def test_operators(self, backend):
        sweep(lambda x, s: (x * s, s * x, x + s, s - x, x / s, s / x, x**s, s**x), backend)

    def test_functions_and_methods(self, backend):
        sweep(lambda x, s: (torch.add(x, s), x.mul(s), torch.div(x, s), x.sub(s), x.pow(s), x.lerp(x * 2, s)), backend)

    def test_keywords(self, backend):
        def program(x, s):
            return x.add(x, alpha=s), torch.sub(x, x, alpha=-s), x.addcmul(x, x, value=s), x.addcdiv(x, x, value=1 - s)

        sweep(program, backend)

    def test_in_place(self, backend):
        def program(x, s):
            before = x
            x.add_(x, alpha=-s)
            x.mul_(s).addcmul_(x, x, value=s).div_(s)
            x *= s
            y = x.clone().fill_(s)
            return x is before, x, y

        sweep(program, backend)

    def test_dtypes_are_those_of_a_float(self, backend):
        def program(x, s):
            return x.sum() * s, x.int() * s, x.int().sum() + s, x.bfloat16() * s, x.double() - s

        sweep(program, backend)


def test_a_half_precision_scalar():
    sweep(lambda x, s: (x.sum().half() / s, x.sum().bfloat16() * s, x.half().add(x.half(), alpha=s)))


def test_arithmetic():
    sweep(lambda x, s: (x * (0.5 * s), x + (1 - s), -s, s * 2 + 1, s / 4, x * (s * s - s), +s))


def test_sides_are_guarded():
    def program(x, decay):
        return x + x * decay if decay != 0 else x

    vary = [(torch.ones(2), value) for value in (0.1, 0.2, 0.0, 0.3, 0.0, -0.0, 4.0)]
    check(program, vary=vary, expect_recompiles=2, expect_graphs=2)  # without decay there is nothing to compute


def test_elsewhere_a_constant():
    def program(x, s):
        return f"{s}", {s: 1}, s * 0.5 > 0.3, torch.quantile(x, min(s, 1.0))

    sweep(program, recompiles=2, values=(0.1, 0.2, 0.35, 0.2, 0.1))


def test_what_a_float_is():
    sweep(lambda x, s: (x * s, isinstance(s, float), isinstance(s, int), type(s) is float, float(s)))


def test_with_other_numbers():
    def program(x, s, n):
        return x * s, n * s, s - n, s + True, s * 1j, 2j - s, s < n, n >= s

    check(program, vary=[(torch.ones(2), s, 3) for s in VALUES], expect_recompiles=None, expect_graphs=None)
    check(program, vary=[(torch.ones(2), 0.5 * n, n) for n in (2, 3, 4, 3)], expect_recompiles=2, expect_graphs=3)


def test_odd_values():
    values = (0.1, 0.2, math.inf, -math.inf, math.nan, 0.0, -0.0)
    sweep(lambda x, s: (x * s, s * 0.5, s - s), values=values)


def test_a_bound():
    vary = [(torch.ones(2), value) for value in (0.1, 0.2, 3.5, 0.3, 4.0, 3, 3.0, 2.9)]
    check(lambda x, s: x * s if s < 3 else x - s, vary=vary, expect_recompiles=None, expect_graphs=5)


def test_a_float_that_is_written_back():
    class State:
        pass

    state, twin = State(), State()
    state.rate = twin.rate = 1.0

    def program(x, state):
        state.rate *= 0.9
        return x * state.rate

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(6):
        torch.testing.assert_close(compiled(torch.ones(2), state), program(torch.ones(2), twin))
        assert state.rate == twin.rate and type(state.rate) is float
    assert len(compiled.entries()) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_step_of_sgd(backend):
    def step(param, grad, buffer, lr, decay, momentum):
        if decay != 0:
            grad = grad.add(param, alpha=decay)
        buffer.mul_(momentum).add_(grad)
        param.add_(buffer, alpha=-lr)

    def make(i):
        generator = torch.Generator().manual_seed(i)
        tensors = [torch.randn(3, generator=generator) for _ in range(3)]
        return *tensors, 0.1 / (i + 1), 0.01 * (i + 1), 0.9

    vary = [make(i) for i in range(10)]
    check(step, vary=vary, expect_recompiles=1, expect_graphs=2, tolerance=1e-6, backend=backend)
