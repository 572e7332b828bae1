"""Operations that take a symbolic float give what they give for the float, to the last bit, for every dtype."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.shapes.floats import TracedFloat

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64)
VALUES = (0.3, 0.7, 2.0, 0.5, -1.0, 0.1234567890123)

ROWS = {
    "operators": lambda x, y, s: (x + s, s + x, x - s, s - x, x * s, s * x, x / s, s / x),
    "more operators": lambda x, y, s: (x % s, s % x, x // s, s // (x + 9), abs(s) ** x.abs()),
    "powers": lambda x, y, s: (x.abs() ** s, x.abs().pow(s), torch.pow(x.abs(), s), torch.float_power(x.abs(), s)),
    "functions": lambda x, y, s: (torch.add(x, s), torch.sub(x, s), torch.mul(x, s), torch.div(x, s), x.fmod(s)),
    "comparisons": lambda x, y, s: (x < s, x >= s, s > x, x == s, x.ne(s), torch.gt(x, s)),
    "where": lambda x, y, s: (torch.where(x > 0, x, s), torch.where(x > 0, s, y), torch.where(x > 0, s, 0.0)),
    "clamp": lambda x, y, s: (x.clamp(min=s), x.clamp(max=s), x.clamp(-1.0, s), torch.clamp(x, s, 5.0), x.clip(s)),
    "bounds": lambda x, y, s: (x.clamp_min(s), torch.clamp_max(x, s)),
}
FLOATING = {
    "fill": lambda x, y, s: (x.clone().fill_(s), x.masked_fill(x > 0, s), torch.full_like(x, s), x.new_full((2,), s)),
    "made": lambda x, y, s: (
        torch.tensor(s),
        torch.full((2, 3), s),
        torch.as_tensor(s),
        torch.tensor(s, dtype=x.dtype),
    ),
    "alpha": lambda x, y, s: (x.add(y, alpha=s), torch.sub(x, y, alpha=s), x.sub(y, alpha=-s)),
    "fused": lambda x, y, s: (x.addcmul(y, y, value=s), torch.addcdiv(x, y, x, value=s)),
    "lerp": lambda x, y, s: (x.lerp(y, s), torch.lerp(x, y, weight=s)),
    "activations": lambda x, y, s: (F.leaky_relu(x, s), F.elu(x, s), F.softplus(x, abs(s)), F.hardtanh(x, -1.0, s)),
    "in place": lambda x, y, s: (
        x.clone().add_(s).mul_(s).sub_(s).div_(s),
        x.clone().add_(y, alpha=s).addcmul_(y, y, value=s).addcdiv_(y, x, value=s).lerp_(y, s),
        x.abs().pow_(s).clamp_(max=s),
    ),
    "foreach": lambda x, y, s: (
        torch._foreach_add([x, y], [y, x], alpha=s),
        torch._foreach_mul([x, y], s),
        torch._foreach_div([x, y], [s, 2 * s]),
        torch._foreach_addcdiv([x, y], [y, x], [x, y], [s, s * 0.5]),
        torch._foreach_lerp([x, y], [y, x], s),
        torch._foreach_pow([x.abs(), y.abs()], s),
    ),
}


def tensors(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(2):
        made = torch.randn(shape, generator=generator, dtype=torch.float64) * 3
        yield made.to(dtype) if dtype.is_floating_point else made.round().add(made.sign()).to(dtype)


def run(program, many, values=VALUES):
    """Bit for bit what eager gives, in two compilations."""

    def everything(many, s):
        return [program(x, y, s) for x, y in many]

    compiled = stator.compile(everything, backend="eager", fullgraph=True)
    for value in values:
        torch.testing.assert_close(compiled(many, value), everything(many, value), rtol=0, atol=0, equal_nan=True)
    assert len(compiled.entries()) == 2


def of(dtypes):
    return [tuple(tensors(dtype, shape, 7)) for dtype in dtypes for shape in ((), (19,))]


@pytest.mark.parametrize("name", ROWS)
def test_all_dtypes(name):
    run(ROWS[name], of(DTYPES))


@pytest.mark.parametrize("name", FLOATING)
def test_floating_dtypes(name):
    run(FLOATING[name], of(DTYPES[:4]))


def test_rounding():
    def program(x, y, s):
        return torch.div(x, s, rounding_mode="floor"), torch.div(x, s, rounding_mode="trunc")

    run(program, of((torch.float32, torch.float64, torch.int64)))


def test_layers():
    def program(x, y, s):
        return F.layer_norm(x, (5,), eps=abs(s)), F.rms_norm(x, (5,), eps=abs(s))

    run(program, [tuple(tensors(torch.float32, (3, 5), 1))])


def test_attention():
    def program(x, y, s):
        q = x.reshape(1, 1, 3, 5)
        return F.scaled_dot_product_attention(q, q, q, scale=abs(s)), F.scaled_dot_product_attention(
            q, q, q, is_causal=True, scale=abs(s)
        )

    run(program, [tuple(tensors(torch.float32, (3, 5), 1))])


def test_functions_of_python_are_looked_into():
    def program(x, y, s):
        return F.normalize(x, eps=abs(s)), F.normalize(x, dim=0, eps=s + 2)

    run(program, [tuple(tensors(torch.float32, (3, 5), 1))])


def test_products():
    def program(x, y, s):
        z = torch.addmm(x, y, y.T[:, :5], beta=s, alpha=2 * s), x.clone().addmm_(y, y.T[:, :5], alpha=s)
        return *z, torch.baddbmm(x[None], y[None], y.T[None, :, :5], beta=s), torch.addmv(x[:, 0], y, y[0], beta=s)

    run(program, [(x[:, :5], y) for x, y in [tuple(tensors(torch.float32, (5, 6), 1))]])


def test_what_runs_as_it_is():
    """Numbers that torch draws or calculates with in ways of its own: symbols where nobody traces the graph."""

    def program(x, y, s):
        s = min(abs(s), 0.9)
        drawn = F.dropout(x, s, True), torch.empty(3).uniform_(-s, s), torch.empty(3).normal_(s, s)
        return (
            *drawn,
            F.huber_loss(x, y, delta=s),
            F.smooth_l1_loss(x, y, beta=s),
            F.batch_norm(x, None, None, training=True, momentum=s, eps=s),
        )

    many = [tuple(tensors(torch.float32, (3, 5), 1))]
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for value in VALUES:
        torch.manual_seed(0)
        expected = program(*many[0], value)
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(*many[0], value), expected, rtol=0, atol=0)
    assert len(compiled.entries()) == 2


def test_items():
    def program(x, y, s):
        z = x.clone()
        z[1] = s
        z[:, 2:] = s * 0.5
        z[x > 1] = -s
        return z

    run(program, [tuple(tensors(dtype, (3, 5), 1)) for dtype in (torch.float32, torch.bfloat16)])


def test_a_symbol_is_seen_as_a_float_by_python():
    assert isinstance(TracedFloat(None, 0.5, None, ()), float)


@pytest.mark.parametrize("kind", [float, complex])
def test_a_float_meets_a_complex_number(kind):
    def program(x, number, s):
        return x * s, number == s, s != number, [number].count(s), s in (number,)

    compiled = stator.compile(program, backend="eager")
    for s in (1.0, 2.0, 0.5, -0.0, float("nan")):
        for number in (kind(s), kind(3)):
            assert compiled(torch.zeros(2), number, s)[1:] == program(torch.zeros(2), number, s)[1:]


TWO_TYPES = {
    "alpha": lambda x, y, s: (x.add(y, alpha=s), torch.sub(x, y, alpha=s), torch._foreach_add([x], [y], alpha=s)[0]),
    "products": lambda x, y, s: (x.addcmul(y, y, value=s), torch.addcdiv(x, y, y, value=s)),
    "outer": lambda x, y, s: torch.addr(x, x[0], y[1], beta=s, alpha=2 * s),
    "huber": lambda x, y, s: F.huber_loss(x, y, delta=s, reduction="none"),
    "smooth": lambda x, y, s: F.smooth_l1_loss(x, y, beta=s),
    "margins": lambda x, y, s: (
        F.margin_ranking_loss(x, y, y.sign(), margin=s),
        F.triplet_margin_loss(x, y, 2 * x, margin=s),
    ),
}


@pytest.mark.parametrize("name", TWO_TYPES)
@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_numbers_next_to_tensors_of_two_types_are_not_rounded_to_the_narrow_one(name, wide):
    program = stator.compile(TWO_TYPES[name], backend="aot_eager", fullgraph=True)
    for first, second in ((torch.bfloat16, wide), (wide, torch.bfloat16), (torch.float16, wide)):
        (x, _), (_, y) = tensors(first, (8, 8), 7), tensors(second, (8, 8), 8)
        for value in VALUES[:4]:
            torch.testing.assert_close(program(x, y, value), TWO_TYPES[name](x, y, value))


def test_a_tensor_without_dimensions_does_not_decide_the_type():
    def program(x, y, s):
        return x.add(y, alpha=s), y.add(x, alpha=s), x.addcmul(y, x, value=s)

    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    x, y = torch.randn(8), torch.tensor(0.7, dtype=torch.float64)
    for value in VALUES[:4]:
        torch.testing.assert_close(compiled(x, y, value), program(x, y, value))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, s: F.softplus(x, s),
        lambda x, s: F.elu(-x, s),
        lambda x, s: (40 * x).var(correction=s),
        lambda x, s: (40 * x).std(0, correction=s),
    ],
    ids=["softplus", "elu", "var", "std"],
)
def test_halves_are_calculated_in_float32(program):
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    x = torch.linspace(0.5, 9, 64).half().view(8, 8)
    for value in (0.3, 0.7, 2.0, 0.5):
        torch.testing.assert_close(compiled(x, value), program(x, value))
