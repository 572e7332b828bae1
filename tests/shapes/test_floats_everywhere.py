"""Every call that takes a number takes a symbolic float: two compilations for any values, with results of eager."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.harness import check

VALUES = (0.5, 0.25, 0.75, 0.9)
INDEX = torch.tensor([0, 1, 2])
COLUMN = INDEX[:, None]


def tensors():
    generator = torch.Generator().manual_seed(7)
    x, y, z = (torch.randn(3, 4, generator=generator) for _ in range(3))
    return x, y, z + 3


def out_of(x, dtype=None):
    return torch.empty_like(x, dtype=dtype)


ROWS = {
    "by name": lambda x, y, z, s: (
        torch.mul(x, other=s), torch.true_divide(x, other=s), torch.copysign(x, other=s), torch.lt(x, other=s),
        torch.pow(z, exponent=s), F.elu(x, alpha=s),
    ),
    "out": lambda x, y, z, s: (
        torch.add(x, s, out=out_of(x)), torch.mul(x, s, out=out_of(x)), torch.add(x, y, alpha=s, out=out_of(x)),
        torch.lt(x, s, out=out_of(x, torch.bool)), torch.pow(z, s, out=out_of(x)),
    ),
    "activations": lambda x, y, z, s: (
        F.leaky_relu(x.clone(), s, True), F.elu(x.clone(), s, True), torch.threshold(x, s, 0.5), nn.LeakyReLU(s)(x),
        nn.ELU(s)(x), nn.Hardtanh(-s, s)(x), nn.Softplus(s)(x), F.threshold_(x.clone(), s, s),
    ),
    "places": lambda x, y, z, s: (
        x.index_fill(0, INDEX[:1], s), x.clone().index_fill_(0, INDEX[:1], s), x.scatter(1, COLUMN, s),
        x.clone().scatter_(1, COLUMN, s), torch.index_add(x, 0, INDEX, y, alpha=s),
        x.clone().index_add_(0, INDEX, y, alpha=s), F.pad(x, (1, 1), value=s), F.pad(x, (1, 0, 0, 1), "constant", s),
    ),
    "numbers": lambda x, y, z, s: (
        torch.nan_to_num(x.log(), nan=s), torch.nan_to_num(x.log(), s, s, s), torch.isclose(x, y, atol=s),
        torch.isclose(x, y, rtol=s), torch.linspace(0, s, 5), torch.linspace(s, 2 * s, 5), torch.rsub(x, y, alpha=s),
        torch.special.xlog1py(x.abs(), s), torch.special.zeta(z.abs() + 2, s + 1), torch.xlogy(s, x.abs()),
    ),
    "statistics": lambda x, y, z, s: (
        torch.var(x, correction=s), x.std(correction=s), torch.var(x, 1, correction=s, keepdim=True),
        torch.trapz(x, dx=s),
    ),
    "losses": lambda x, y, z, s: (
        F.huber_loss(x, y, delta=s), F.smooth_l1_loss(x, y, beta=s), F.smooth_l1_loss(x, y, reduction="none", beta=s),
        F.margin_ranking_loss(x, y, z.sign(), margin=s), F.hinge_embedding_loss(x, y.sign(), margin=s),
    ),
    "norms": lambda x, y, z, s: (
        F.group_norm(x, 2, eps=s), F.batch_norm(x, y[0], z[0], eps=s), F.layer_norm(x, (4,), eps=s),
        F.instance_norm(x[None], eps=s), F.cosine_similarity(x, y, eps=s),
    ),
    "shares": lambda x, y, z, s: (
        F.cross_entropy(x, INDEX, label_smoothing=s), F.cross_entropy(x, INDEX, z[0], label_smoothing=s),
        F.cross_entropy(x, INDEX, z[0], ignore_index=1, label_smoothing=s), F.cross_entropy(x, y, label_smoothing=s),
        F.cosine_embedding_loss(x, y, INDEX - 1, margin=s), torch.quantile(x, s), x.quantile(s, 1, True),
        torch.nanquantile(x.log(), s, 0), torch.quantile(x.log(), s, 1), torch.logit(x.sigmoid(), eps=s / 3),
    ),
    "dropout": lambda x, y, z, s: (F.dropout(x, s), nn.Dropout(s)(x), F.dropout(x, s, False), torch.rand(2)),
    "draws": lambda x, y, z, s: (
        torch.bernoulli(x, p=s), nn.init.uniform_(x.clone(), -s, s), nn.init.normal_(x.t().clone(), 0.0, s),
        x.clone().cauchy_(0.0, s), x.clone().log_normal_(0.0, s), x.clone().geometric_(s), torch.normal(0.0, s, (3,)),
        x.clone().t().normal_(s, 2.0), x.clone().exponential_(s), x.clone().bernoulli_(s), torch.rand(2),
    ),
    # Deprecated overloads, which older optimizers are full of.
    "overloads": lambda x, y, z, s: (
        x.clone().add_(1 - s, y), x.add(s, y), torch.add(x, s, y), x.clone().sub_(s, y), torch.sub(x, s, y),
        x.clone().addcmul_(1 - s, y, z), x.addcmul(s, y, z), torch.addcmul(x, s, y, z), x.clone().addcdiv_(-s, y, z),
        torch.addcdiv(x, s, y, z),
    ),
    "overloads of products": lambda x, y, z, s: (
        torch.addmm(s, y[:, :3], 2 * s, x, z.t()), y[:, :3].addmm(s, x, z.t()), y[0].addmv(s, s, x.t(), z[:, 0]),
        x.clone().addr_(s, y[:, 0], z[0]), torch.addr(s, x, y[:, 0], z[0]),
    ),
    "spellings": lambda x, y, z, s: (
        torch.add(input=x, other=y, alpha=s), torch.subtract(x, y, alpha=s), torch.add(x, s, alpha=2),
        torch.add(x, s, alpha=s), torch.sub(x, 2.5, alpha=s), torch.mul(s, x), torch.sub(s, x), torch.div(s, x),
        torch.remainder(s, z), x.where(x > 0, s), torch.tensor([s, 1.0], requires_grad=False), x.clone().uniform_(to=s),
    ),
    "lists in place": lambda x, y, z, s: (
        torch._foreach_add_([x], s), torch._foreach_mul_([x, y], [s, 2.0]), torch._foreach_lerp_([x], [z], s),
        torch._foreach_addcdiv_([x], [y], [z], value=s), torch._foreach_add_([x, y], [z, z], alpha=s), x, y,
    ),
    "dropped in place": lambda x, y, z, s: (
        F.dropout(x.clone(), s, True, True), F.dropout2d(x.clone()[None], s, True, True), F.alpha_dropout(x, s, True),
        F.feature_alpha_dropout(x[None], s, True), torch.normal(x, s), torch.normal(s, z), torch.rand(2),
    ),
    "python": lambda x, y, z, s: (
        x * math.modf(3 * s)[0] + math.modf(-s)[1], x * math.prod([s, 2, s]), x * math.isclose(s, 2.0),
        x * s.conjugate(),
    ),
    # What compilers do not look into.
    "orders": lambda x, y, z, s: (
        torch.norm(x, s), x.norm(p=s), torch.dist(x, y, s), torch.renorm(x, 2, 0, s), torch._foreach_norm([x, y], s),
        F.normalize(x, p=s), F.pairwise_distance(x, y, p=s),
    ),
    "more losses": lambda x, y, z, s: (
        F.triplet_margin_loss(x, y, z, margin=s),
        F.poisson_nll_loss(x, z, log_input=False, eps=s), F.multi_margin_loss(x, INDEX, margin=s),
    ),
    "functions": lambda x, y, z, s: (
        torch.histc(x, 4, -s, s), torch.logspace(0, s, 5),
        torch.gradient(x, spacing=s), torch.cumulative_trapezoid(x, dx=s), torch.searchsorted(z[0].sort()[0], s),
        x.scatter(1, COLUMN, s, reduce="add"), x.clone().fill_diagonal_(s), torch.hamming_window(5, True, s, 0.46),
        torch.std_mean(x, correction=s), torch.histogram(x, 4, range=(-s, s)), x.clone().renorm_(2, 0, s),
    ),
}  # fmt: skip


def run(program, backend, tolerance):
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for value in VALUES:
        torch.manual_seed(0)
        mine = compiled(*tensors(), value)
        torch.manual_seed(0)
        theirs = program(*tensors(), value)
        options = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        torch.testing.assert_close(mine, theirs, **options)
    assert len(compiled.entries()) == 2


@pytest.mark.parametrize("name", ROWS)
def test_eager(name: str) -> None:
    run(ROWS[name], "eager", 0.0)


@pytest.mark.parametrize("name", ROWS)
def test_traced(name: str) -> None:
    run(ROWS[name], "aot_eager", 1e-5)


def test_what_has_no_gradient() -> None:
    def program(x, y, z, s):
        return torch.histc(w * x, 4, -s, s).requires_grad, torch.std_mean(w * x, correction=s)[0].requires_grad

    w = torch.ones(4, requires_grad=True)
    run(program, "aot_eager", 0.0)


def test_sixteen_bits_are_rounded_once() -> None:
    def program(x, y, z, s):
        x, y, z = x.half(), y.half(), z.half()
        return x.addcmul(y, z, value=s), x.addcdiv(y, z, value=s), x.lerp(y, s)

    run(program, "aot_eager", 0.0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_no_dropout_is_the_tensor_itself(backend: str) -> None:
    def program(x, p):
        return F.dropout(x, p)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x = torch.ones(4)
    for p in (0.5, 0.25, 0.0, 0.75, 1.0):
        before = torch.get_rng_state()
        theirs = program(x, p)
        torch.set_rng_state(before)
        assert torch.equal(compiled(x, p), theirs) and (compiled(x, p) is x) is (p == 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_running_averages(backend: str) -> None:
    """`momentum` of a batch norm, which writes to buffers."""

    def program(x, y, z, s):
        mean, spread = y[0].clone(), z[0].clone()
        return F.batch_norm(x, mean, spread, training=True, momentum=s), mean, spread

    run(program, backend, 0.0 if backend == "eager" else 1e-5)


def test_gradients_reach_what_the_number_meets() -> None:
    def program(x, y, z, s):
        x = x.detach().requires_grad_()
        made = F.huber_loss(x, y, delta=s) + torch.norm(x, s + 1) + F.elu(x, s).sum()
        return torch.autograd.grad(made, x)

    run(program, "eager", 0.0)


def deviation(x, s):
    return torch.std(x * 0, correction=s)


# What has no gradient at a bound, or calculates with what it does not choose.
GRADIENTS = {
    "activations": lambda x, s: F.elu(x, s) + F.celu(x, s) + F.softplus(x, s) + nn.ELU(s)(x) + nn.Softplus(s)(x),
    "bounds": lambda x, s: F.hardtanh(x, -s, s) + F.softshrink(x, s) + torch._foreach_maximum([x], s)[0],
    "in place": lambda x, s: x.abs().clone().pow_(s) + F.elu(x.clone(), s, True) + (x * 1).lerp_(x * 2, s),
    "no spread": deviation,
    "not looked into": lambda x, s: x.norm(1 + s) * (x[:, None] * 1).renorm_(2, 0, s) + torch.std_mean(x)[0],
    "triplets": lambda x, s: F.triplet_margin_loss(x[None], x[None] * 2, x[None].flip(1), margin=s),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_traced_gradients(name: str) -> None:
    program = GRADIENTS[name]
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    for value in (0.5, 0.25, 2.0):
        mine, theirs = (torch.tensor([-200.0, -2.0, -0.5, 0.25, 0.5, 2.0, 200.0]).requires_grad_() for _ in range(2))
        compiled(mine, value).sum().backward()
        program(theirs, value).sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert len(compiled.entries()) == 2


def test_dropped_channels() -> None:
    run(lambda x, y, z, s: (F.dropout2d(x[None, :, :, None], s), F.dropout1d(y[None], s)), "aot_eager", 1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_of_lists_are_tuples(backend: str) -> None:
    def program(x, s):
        made = torch._foreach_mul([x, x + 1], s), torch._foreach_lerp([x], [x + 1], s), torch._foreach_add([x], [s])
        return made, torch._foreach_add_([x + 2], s)

    calls = [(torch.ones(3), s) for s in (0.5, 0.7, 2.0)]
    check(program, vary=calls, backend=backend, expect_recompiles=1, expect_graphs=2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_normalised_rows_are_those_of_eager(backend: str) -> None:
    """A momentum that varies goes into the averages only."""

    def program(x, mean, spread, momentum):
        return F.batch_norm(x, mean, spread, training=True, momentum=momentum), mean, spread

    x = torch.randn(6, 5, generator=torch.manual_seed(0))
    calls = [(x, torch.zeros(5), torch.ones(5), momentum) for momentum in (0.1, 0.3, 0.77)]
    check(program, vary=calls, backend=backend, expect_recompiles=1, expect_graphs=2, tolerance=1e-7)


def test_losses_that_look_at_data() -> None:
    """`gaussian_nll_loss` raises for a negative variance: a check of data."""

    def program(x, y, variance, eps):
        return F.gaussian_nll_loss(x, y, variance, eps=eps)

    x, y = torch.arange(3.0), torch.ones(3)
    calls = [(x, y, torch.full((3,), float(v)), eps) for v, eps in ((1, 0.1), (2, 0.2), (-1, 0.3), (3, 0.4))]
    check(program, vary=calls, expect_breaks=0, expect_recompiles=1, expect_graphs=2)


def test_sums_and_distances_of_math() -> None:
    def program(x, s):
        return math.fsum([s, 0.1, s]) * x, math.dist([s, 1.0], (2.0, s)) * x

    calls = [(torch.ones(2), s) for s in (0.5, 0.7, 2.0, 1e16)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)
