"""A batch of one, or one token, is no other compilation for Inductor either: it has code for all sizes."""

import pytest
import torch
import torch.nn.functional as F

import stator

SIZES = [(4, 7), (3, 9), (1, 5), (6, 1), (1, 1), (2, 8)]


def attention(x, w):
    b, t, c = x.shape
    q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in (x @ w).chunk(3, -1))
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    seen = (q @ k.transpose(-2, -1)).masked_fill(hidden, float("-inf")).softmax(-1)
    return x + (seen @ v).transpose(1, 2).contiguous().view(b, t, c)


def fused_attention(x, w):
    b, t, c = x.shape
    q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in (x @ w).chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)


def spread(x, w):
    rows = F.linear(x, w.t()).flatten(0, 1)
    return rows.sum(0) + rows.mean(-1, keepdim=True) + F.layer_norm(rows, rows.shape[1:])


def slopes(program, sizes, given):
    x = torch.randn(*sizes, 8, generator=torch.Generator().manual_seed(sizes[0]), requires_grad=True)
    w = given.clone().requires_grad_()
    made = program(x, w)
    return made.detach(), *torch.autograd.grad(made, (x, w), torch.linspace(0, 1, made.numel()).view(made.shape))


@pytest.mark.inductor
@pytest.mark.parametrize("program", [attention, fused_attention, spread])
def test_two_compilations(program):
    compiled = stator.compile(program, backend="inductor")
    w = torch.randn(8, 24, generator=torch.Generator().manual_seed(1))
    for sizes in SIZES:
        torch.testing.assert_close(slopes(compiled, sizes, w), slopes(program, sizes, w), rtol=1e-4, atol=1e-5)
    stats = stator.stats()
    assert (stats["frames_captured"], stats["graph_breaks"]) == (2, 0)


@pytest.mark.inductor
def test_long_sums_are_compiled_again():
    """Where it is no matter of a size being one, Inductor's answer holds for what it was asked about."""
    compiled = stator.compile(lambda x: x.sum(1), backend="inductor")
    for length in (10, 20, 5000, 30):
        x = torch.rand(2, length)
        torch.testing.assert_close(compiled(x), x.sum(1), rtol=1e-6, atol=0)
    assert stator.stats()["frames_captured"] == 3


@pytest.mark.inductor
def test_backward_passes_are_compiled(caplog):
    """Inductor pads a gradient back by sizes of its own, of which only hints are known."""

    def program(x, w):
        return F.pad(x, (1, 2)) * 2

    w = torch.ones(1)
    for with_slopes in (False, True):
        stator.reset()
        compiled = stator.compile(program, backend="inductor")
        for sizes in SIZES[:3]:
            x = torch.rand(*sizes, 8, requires_grad=with_slopes)
            torch.testing.assert_close(compiled(x, w), program(x, w))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert stator.stats()["frames_captured"] == 2
