"""Floats that change become 0-d tensors of the graph where an operation takes them."""

from __future__ import annotations

import math
import re

import pytest
import torch

import stator
from tests.harness import check

VALUES = (0.1, 0.2, 0.35, 1e-3, 7.0)


def sweep(fn, backend="eager", recompiles=1, values=VALUES, graphs=None):
    vary = [(torch.rand(4) + 1, value) for value in values]
    graphs = recompiles + 1 if graphs is None else graphs
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

    sweep(program, recompiles=2, values=(0.1, 0.2, 0.35, 0.2, 0.1), graphs=2)  # one serves again


def test_what_a_float_is():
    sweep(lambda x, s: (x * s, isinstance(s, float), isinstance(s, int), type(s) is float, float(s)))


def test_with_other_numbers():
    def program(x, s, n):
        return x * s, n * s, s - n, s + True, s * 1j, 2j - s, s < n, n >= s

    check(program, vary=[(torch.ones(2), s, 3) for s in VALUES], expect_recompiles=None, expect_graphs=None)
    check(program, vary=[(torch.ones(2), 0.5 * n, n) for n in (2, 3, 4, 3)], expect_recompiles=2, expect_graphs=2)


def test_odd_values():
    values = (0.1, 0.2, math.inf, -math.inf, math.nan, 0.0, -0.0)
    sweep(lambda x, s: (x * s, s * 0.5, s - s), values=values)


def test_a_bound():
    vary = [(torch.ones(2), value) for value in (0.1, 0.2, 3.5, 0.3, 4.0, 3, 3.0, 2.9, math.nan)]
    check(lambda x, s: x * s if s < 3 else x - s, vary=vary, expect_recompiles=None, expect_graphs=4)


def test_bounds_that_are_met():
    """A comparison that includes its bound needs no compilation of its own for that."""
    values = (0.1, 0.2, 0.0, 1.0, 0.7)
    sweep(lambda x, s: x * s if 0 <= s <= 1.0 else x, values=values)
    sweep(lambda x, s: x if s < 0 or s > 1 else x * s, values=values)


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


# ---- expressions ----------------------------------------------------------------------------------


def exactly(fn, *vary, compiles=2):
    """Each call gives what Python gives, bit by bit, or raises what Python raises."""
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for args in vary:
        try:
            expected = fn(*args)
        except Exception as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                compiled(*args)
        else:
            torch.testing.assert_close(compiled(*args), expected, rtol=0, atol=0, equal_nan=True)
    assert len(compiled.entries()) == compiles


X = torch.linspace(-2, 2, 5)


def test_operators_of_python():
    def program(x, s):
        return x * (s**2 + s // 0.3 - s % 0.7), abs(-s) ** 0.5, 2**s, 1 / s, round(s, 2), 7 // s, 7 % s, +s

    exactly(program, *((X, value) for value in VALUES))


def test_functions_of_math():
    def program(x, s):
        return (
            x * math.sqrt(s), math.exp(-s), math.log(s), math.log1p(s), math.log(s, 2), math.pow(s, 3), math.sin(s),
            math.tanh(s), math.hypot(s, 1.0), math.copysign(s, -1), math.fabs(s), math.atan2(s, 2), math.erf(s),
        )  # fmt: skip

    exactly(program, *((X, value) for value in VALUES))


def test_ints_made_floats():
    def program(x, n):
        return x * (n / 2), 1 / n, n**-0.5, n * 0.5, float(n), math.sqrt(n), 0.9**n, (n + 1) / (n * n)

    exactly(program, *((X, n) for n in (3, 5, 8, 13, 1000)))


def test_sizes_made_floats():
    def program(x):
        return x * x.shape[-1] ** -0.5, x / math.sqrt(x.size(0)), x.sum() / x.numel()

    exactly(program, *((torch.randn(n, 3),) for n in (4, 5, 6, 7)))


def test_what_raises():
    def program(x, s):
        return x * (1 / (s - 0.3)), math.log(1 - s), x * 2.0 ** (s * 1e4)

    exactly(program, *((X, value) for value in (0.01, 0.02, 0.3, 2.0, 0.9, 0.03)))


def test_questions():
    def program(x, s):
        if math.isnan(s):
            return x * 0
        return x * s if math.isfinite(s) and not math.isinf(s) else x

    exactly(program, *((X, value) for value in (0.1, 0.2, 3.0, -0.0, 7.0)))
    exactly(program, *((X, value) for value in (0.1, 0.2, math.nan, 3.0, math.inf)), compiles=4)


def test_whole_numbers():
    def program(x, s):
        return x[: math.floor(s)] * s, math.ceil(s), int(s)

    exactly(program, *((X, value) for value in (2.25, 2.5, 2.75, 2.9)))
    exactly(program, *((X, value) for value in (2.25, 2.5, 3.75, 2.9, 3.5)))


def test_comparisons_of_expressions():
    def program(x, s, n):
        if s * 0.5 + 1 / n > 0.4:
            x = x - 1
        if math.sqrt(s) < math.cos(s):
            x = x + 1
        return x * s

    exactly(program, *((X, 0.05 * i, i + 1) for i in range(2, 30)), compiles=4)


def test_a_schedule():
    def program(x, step, base):
        rate = base * min(1.0, step / 10)
        return x - max(rate, 1e-3) * 0.5 * (1 + math.cos(math.pi * step / 50))

    exactly(program, *((X, step, 0.1 / step) for step in range(1, 50)))


def test_long_expressions():
    def program(x, s):
        for _ in range(300):
            s = s * 0.99 + 0.001 * s
        return x * s

    exactly(program, *((X, value) for value in VALUES))


def test_a_graph_of_the_same_size():
    sizes = []

    def backend(graph, inputs):
        sizes.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    def program(x, s, t):
        y = (x * (0.5 * s)).add_(x, alpha=1 - s**2).addcmul(x, x, value=s * t)
        return y.clamp_(max=math.sqrt(t)) / s, s / x, x.int() * s

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for value in VALUES:
        compiled(X, value, value + 1)
    assert sizes[0] == sizes[1] and len(sizes) == 2


def test_formulas_of_norms_refuse_other_shapes():
    """A weight that would merely broadcast, or a shape that is not that of the input, is an error in torch."""

    def by_layer(x, shape, w, eps):
        return torch.nn.functional.layer_norm(x, shape, w, w, eps)

    def by_root(x, shape, w, eps):
        return torch.nn.functional.rms_norm(x, shape, w, eps)

    def by_group(x, shape, w, eps):
        return torch.nn.functional.group_norm(x, 2, w, w, eps)

    def by_batch(x, shape, w, eps):
        return torch.nn.functional.batch_norm(x, w, w.square() + 1, w, w, False, 0.1, eps)

    shapes = [
        ((3, 4), (4,), (4,)),
        ((2, 4), (4,), (4,)),
        ((2, 4), (4,), (1,)),
        ((2, 6), (4,), (6,)),
        ((2, 6), (6,), (6,)),
    ]
    calls = [(torch.randn(x), shape, torch.randn(w), 0.1 * i) for i, (x, shape, w) in enumerate(shapes, 1)]
    for program in (by_layer, by_root, by_group, by_batch):
        check(
            program,
            vary=calls,
            backend="aot_eager",
            fullgraph=False,
            tolerance=1e-5,
            expect_recompiles=None,
            expect_breaks=None,
        )
