"""Python calculates with numbers from data as it does in eager, in the middle of one graph."""

from __future__ import annotations

import math

import pytest
import torch

import stator
from tests.harness import check

VALUES = [(5, 2, 1.5, 0.25), (1, 1, 0.5, 2.0), (8, 3, 2.75, 1.5), (4, 4, 1.0, 1.0), (-3, 2, -1.25, 0.5)]


def calls(values=VALUES):
    for n, m, f, g in values:
        x = torch.arange(3.0) + 1
        yield x, torch.tensor([n, 0]), torch.tensor([m, 0]), torch.tensor([f, f]), torch.tensor([g, g])


def program(calculate):
    """A program that reads two ints and two floats from tensors too large to be read before the graph."""

    def run(x, a, b, c, d):
        n, m, f, g = a.sum().item(), b.sum().item(), c.mean().item(), d.mean().item()
        made = calculate(x, n, m, f, g)
        return made, [x * part for part in made if part is not None and part is not made]

    return run


ROWS = {
    "powers": lambda x, n, m, f, g: (n**2, n**m, 0.9**n, f**2, 2.0**f, f**n, pow(n, 2, 5), pow(2, m, 7), 2**m, m**0.5),
    "roots": lambda x, n, m, f, g: (m**-0.5, m**-1, g**0.5, math.sqrt(m), math.isqrt(m), math.cbrt(f)),
    "math": lambda x, n, m, f, g: (
        math.exp(f), math.log(m), math.log(m, 2), math.log2(g), math.cos(f), math.atan2(f, n), math.hypot(f, g),
        math.pow(n, 2), math.copysign(f, -1), math.fmod(f, 2), math.fabs(f), math.fsum([f, g, n]), math.erf(f),
    ),
    "ints": lambda x, n, m, f, g: (
        math.gcd(n, 4), math.lcm(n, m), math.comb(m, 2), math.factorial(m), n.bit_length(), n.bit_count(), ~n, abs(n),
    ),
    "bits": lambda x, n, m, f, g: (
        n | 1, n | m, 1 | n, n ^ 5, n ^ m, n & 5, n & 7, 6 & n, n << 2, n >> 1, n << m, 1 << m,
    ),
    "rounding": lambda x, n, m, f, g: (
        round(f), round(f, 2), round(n, -1), round(n, 2), round(f, m), math.floor(f), math.ceil(f * 2), int(f),
    ),
    "division": lambda x, n, m, f, g: (
        *divmod(n, 3), *divmod(n, m), *divmod(f, 2), *divmod(f, g), n // 2.5, n % 2.5, f // m, 7.5 % g, n / m,
    ),
    "conditions as numbers": lambda x, n, m, f, g: (
        int(n > 3), float(n > 3), (n > 3) + 1, (n > 3) * 2.5, -(n > 3), (f > 1.5) + 0, float(f > g), (f > 1) * n,
    ),
    "conditions": lambda x, n, m, f, g: (
        n > 3, not n, not f, not (n > 3), (n > 3) ^ (m > 1), (n > 3) == (m > 1), (n > 3) & (f > 1), n > 2.5, n == f,
        f < n, f == 1.5, bool(n), bool(f), math.isnan(f), math.isfinite(g), f.is_integer(), n in (1, 5), f in [1.5, 2],
    ),
    "extremes": lambda x, n, m, f, g: (
        max(f, 1), max(1, f), min(f, 3), max(f, 1) / 2, max(f, n), min(n, 2.5), max(f, g),
    ),
    "chains": lambda x, n, m, f, g: (
        math.ceil(m**0.5), math.ceil(math.log2(m + 1)), max(1, int(n * 0.5)), n * -f, f.real,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_results_are_python_s(name: str) -> None:
    check(program(ROWS[name]), vary=list(calls()), backend="eager", fullgraph=True)


@pytest.mark.parametrize("name", ["powers", "bits", "conditions as numbers"])
def test_traced(name: str) -> None:
    check(program(ROWS[name]), vary=list(calls()), backend="aot_eager", fullgraph=True)


def test_inductor() -> None:
    def run(x, a, b, c, d):
        n, f = b.sum().item(), c.mean().item()
        return x * (n | 1) + math.log(n) * math.cos(f), x[: n - 1] ** 2 * (n > 2), x * max(f, 1.0) / n**0.5

    check(run, vary=list(calls(VALUES[:3])), backend="inductor", fullgraph=True, tolerance=1e-6, strides=False)


def test_integers_meet_conditions() -> None:
    """A condition decides no dtype, as a bool does."""

    def run(x, a, b, c, d):
        n, m = a.sum().item(), b.sum().item()
        ids, flags = torch.arange(3), torch.tensor([True, False])
        return ids + (n > 3), ids * (n > m), flags ^ (n > 3), flags * (m > 1), x + (n == m)

    check(run, vary=list(calls()), backend="eager", fullgraph=True)


def test_nothing_is_subtracted_of_conditions() -> None:
    def run(x, a, b, c, d):
        try:
            return x - (a.sum().item() == b.sum().item())
        except RuntimeError as error:
            return str(error)

    check(run, vary=list(calls()), fullgraph=False, expect_breaks=None, expect_recompiles=None)


@pytest.mark.parametrize(
    "calculate",
    [
        lambda n, f: math.log(n),
        lambda n, f: math.sqrt(f),
        lambda n, f: n**-1,
        lambda n, f: 7.5 // f,
        lambda n, f: math.isqrt(n),
        lambda n, f: (n - 1) ** 0.5,
        lambda n, f: 2 ** (n - 1),
        lambda n, f: 1 << (n * 40),
        lambda n, f: divmod(2.5, n),
        lambda n, f: math.exp(1000 * f),
    ],
)  # fmt: skip
def test_what_fails_or_gives_another_type_runs_in_cpython(calculate) -> None:
    def run(x, a, c):
        n, f = a.sum().item(), c.mean().item()
        return x, calculate(n, f)

    values = [(1, 1.0), (0, 0.0), (3, 2.0), (-2, -1.0), (2, 0.5)]
    inputs = [(torch.ones(2), torch.tensor([n, 0]), torch.tensor([f, f])) for n, f in values]
    check(run, vary=inputs, backend="eager", fullgraph=True, expect_breaks=None)


def test_an_int_or_a_float_is_no_dtype() -> None:
    """`max` of an int and a float from data is one of both: integers promote differently, so that is a break."""

    def run(x, c):
        return torch.arange(3) + max(c.mean().item(), 1)

    with pytest.raises(stator.Unsupported, match="write both as floats"):
        stator.compile(run, backend="eager", fullgraph=True)(torch.ones(2), torch.tensor([0.5, 0.5]))
    inputs = [(torch.ones(2), torch.tensor([value, value])) for value in (0.5, 2.5, 1.0)]
    check(run, vary=inputs, backend="eager", fullgraph=False, expect_breaks=None)


def test_a_number_is_calculated_once() -> None:
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def run(x, a):
        n = a.sum().item()
        return x * (n | 1), x + (n | 1)

    stator.compile(run, backend=backend, fullgraph=True)(torch.ones(2), torch.tensor([2, 1]))
    (graph,) = graphs
    assert sum(node.target is torch.ops.stator.python_int.default for node in graph.graph.nodes) == 1


def test_grad_mode_of_a_graph_that_fails() -> None:
    """A backend that runs the graph as it is leaves the grad mode alone where an assumption does not hold."""

    def run(x, a):
        n = a.sum().item()
        return x[:n].pow(2).sum().item() / n

    compiled = stator.compile(run, backend=lambda graph, inputs: graph.forward, fullgraph=True)
    compiled(torch.ones(4), torch.tensor([2, 0]))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(4), torch.tensor([0, 0]))
    assert torch.is_grad_enabled()


def test_comparing_an_int_with_a_float_guards_a_side() -> None:
    def run(x, step):
        return x + step if step <= 4.5 else x - step

    compiled = stator.compile(run, backend="eager", fullgraph=True)
    for step in (2, 3, 4, 5, 6, 7):
        assert torch.equal(compiled(torch.ones(2), step), run(torch.ones(2), step))
    assert len(compiled.entries()) == 3
