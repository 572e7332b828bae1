"""Ints and floats that change: as arguments, in containers, attributes, globals, closures; alone and with sizes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.sweeps.registry import LONGER, SIZES, sized, sweep

FLOATS = (0.5, 0.25, 1.5, 3.0, -2.0, 1e-3, 0.0, 7.25, 1.0, 0.75)


def x(n=6):
    return torch.randn(n, 20)


@sweep(lambda i: (x(), SIZES[i]))
def int_argument(x, n):
    return x * n + torch.arange(n).sum(), x[:, :n], x.roll(n, 1), n * 2 + 1


@sweep(lambda i: (x(), {"shift": SIZES[i], "more": [LONGER[i], (SIZES[i],)]}))
def ints_in_containers(x, config):
    a, (b, (c,)) = config["shift"], config["more"]
    return x[:, :a] + b, x.narrow(1, 0, c), torch.full((a, b), c)


@sweep(lambda i: (x(), FLOATS[i]), options={"tolerance": 1e-6})
def float_argument(x, s):
    y = x * s + (1 - s)
    y = y.add(x, alpha=s).sub_(s) / 2
    return torch.lerp(y, x, 0.5 * s), y.masked_fill(y > 0, s), x.clone().mul_(s * 2 - 1), s + 1


@sweep(lambda i: (x(), FLOATS[i], SIZES[i]))
def mixed_arguments(x, s, n):
    return x[:, :n] * s + n, (x * s).view(n * 0 + 6, -1), s * 2, n - 1


@sweep(lambda i: (x(SIZES[i]), FLOATS[i], LONGER[i]))
def sizes_and_numbers(x, s, n):
    return (x * s).repeat(2, 1)[: x.shape[0] + 1] + n, x.new_full((n, x.shape[0]), 1.0) * s


@sweep(lambda i: (x(), FLOATS[i], FLOATS[-i], SIZES[i]))
def adam_like(p, lr, decay, step):
    """One optimiser step of which everything changes."""
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    g = p.sin()
    p = p * (1 - lr * decay)
    m.lerp_(g, 1 - 0.9)
    v.mul_(0.99).addcmul_(g, g, value=1 - 0.99)
    return p.addcdiv(m, v.sqrt() + 1e-8, value=-lr), step + 1


@sweep(lambda i: (x(SIZES[i]), 1.0 / SIZES[i], SIZES[i]), factory=True)
def attributes():
    class Annealed(nn.Module):
        """Floats and ints in attributes, which the module changes itself."""

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(20, 4)
            self.temperature = 1.0
            self.steps = 0
            self.seen = {"rows": 0}

        def forward(self, x, t, n):
            self.temperature = self.temperature * 0.9 + t
            self.steps += 1
            self.seen["rows"] = x.shape[0]
            logits = self.linear(x) * self.temperature
            return F.softmax(logits, -1), self.steps * n

    return Annealed()


@sweep(sized(lambda b, s: torch.randn(b, s)), factory=True)
def sizes_as_attributes():
    class Remembering(nn.Module):
        """Notes sizes in attributes, as modules do that cache something."""

        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()
            self.weight = nn.Parameter(torch.ones(1))
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x):
            self.inner.rows = x.size(0)
            self.ratio, self.label = x.size(1) / 2, "seen"
            return self.inner(x) * self.weight + self.scale * self.inner.rows, self.ratio

    return Remembering()


@sweep(sized(lambda b, s: torch.randn(b, s)))
def rounded(x):
    """Quotients of sizes, rounded by way of floats."""
    b, n = x.shape
    up, down, half = math.ceil(n / 3), math.floor((n + 1) / 2), int(n * 0.5)
    padded = F.pad(x, (0, up * 3 - n))
    return padded.view(b, up, 3).sum(-1), x[:, :half], x.new_ones(down), int(float(n) / 4 + 0.5), math.ceil(n * 1.5)


@sweep(sized(lambda b, s: torch.randn(b, 4 * s)))
def messages(x):
    """Texts about sizes, for assertions that hold."""
    n = x.shape[1]
    torch._assert(n % 4 == 0, f"{n} is no multiple of {4} but {n % 4} off, for {x.shape[0]} rows")
    torch._assert(n > 2, f"{n}")
    return x.unflatten(1, (4, n // 4))


@sweep(sized(lambda b, s: torch.randn(b, 1, 4 * s)))
def resampled(x):
    y = F.interpolate(x, size=x.shape[-1] // 2, mode="linear") + F.interpolate(x, scale_factor=0.5)
    return y, F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 4, 2, 1), F.adaptive_avg_pool1d(x, x.shape[0])


@sweep(lambda i: (x(SIZES[i]),), factory=True)
def closures():
    scale, count = 1.0, 0

    def program(x):
        nonlocal scale, count
        scale, count = scale * 0.5, count + 3
        return x * scale + count, count

    return program


@sweep(sized(lambda b, s: (torch.randn(b, s + 1, 4), (s + 1) // 2, b * 0.25)))
def ragged_arguments(x, half, weight):
    left, right = x[:, :half], x[:, half:]
    joined = torch.cat([right, left], 1)
    return (
        F.pad(joined * weight, (0, 0, 0, half)),
        torch.split(x, [half, x.shape[1] - half], dim=1)[1],
        x.reshape(-1)[half:].sum(),
    )


@sweep(sized(lambda b, s: (torch.randn(b, 12), b, s)))
def ranges(x, b, s):
    """Ints that only bound factories and reshapes."""
    grid = torch.arange(b * s).view(b, s)
    steps = torch.linspace(0, 1, s)
    return x.mean(-1, keepdim=True) * steps, grid % 3, torch.eye(s, b), x.new_zeros(b, s).index_fill(1, grid[0] % s, 1)


@sweep(sized(lambda b, s: (torch.randn(b, s), b / s, [b, s], {"k": min(b, s)})))
def statistics(x, q, shape, options):
    top = x.topk(options["k"] // 2, dim=1).values
    return top.mean(), x.view(shape), x.flatten()[: options["k"]], x.clamp(-1, 1) * q, x.sum(0) / shape[0]
