"""Mixtures of experts and other ways to send rows to where they are worked on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.idioms.registry import idiom, ints, r, t


@idiom((r(6, 4), ints(3, 6)), (r(6, 4), t(2, 2, 2, 2, 2, 2)), (r(6, 4), ints(3, 6)), (r(6, 4), t(0, 0, 0, 0, 0, 1)))
def counts_as_splits(x, expert):
    """Rows sorted by expert, one matrix per expert, counts read as a list."""
    order = expert.argsort(stable=True)
    counts = torch.bincount(expert, minlength=3).tolist()
    parts = x[order].split(counts)
    out = torch.cat([part * (i + 1) for i, part in enumerate(parts)])
    return torch.empty_like(out).index_copy_(0, order, out)


@idiom((r(6, 4), ints(3, 6)), (r(6, 4), t(2, 2, 2, 2, 2, 2)), (r(6, 4), ints(3, 6)), (r(6, 4), t(0, 0, 0, 0, 0, 1)))
class OffsetsLoop(nn.Module):
    """Slices between cumulated counts."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, expert):
        order = expert.argsort(stable=True)
        ends = torch.bincount(expert, minlength=3).cumsum(0)
        rows, out, start = x[order], torch.zeros_like(x), 0
        for i, layer in enumerate(self.experts):
            end = ends[i].item()
            out[order[start:end]] = layer(rows[start:end])
            start = end
        return out


@idiom((r(6, 4), r(6, 3)), (r(6, 4), torch.zeros(6, 3)), (r(6, 4), r(6, 3)), (r(6, 4), -r(6, 3).abs()))
def dropped_tokens(x, logits):
    """Tokens beyond the capacity of an expert pass through."""
    chosen = logits.argmax(-1)
    place = F.one_hot(chosen, 3).cumsum(0).gather(1, chosen[:, None])[:, 0] - 1
    kept = place < 2
    out = x.clone()
    out[kept] = x[kept] * 2
    return out, (~kept).sum().item()


@idiom((r(6, 4), ints(3, 6)), (r(6, 4), t(2, 2, 2, 2, 2, 2)), (r(6, 4), ints(3, 6)), (r(6, 4), t(0, 0, 0, 0, 0, 1)))
def padded_groups(x, expert):
    """Groups padded to the largest one, as a batched matrix product wants them."""
    counts = torch.bincount(expert, minlength=3)
    size = counts.max().item()
    order = expert.argsort(stable=True)
    starts = counts.cumsum(0) - counts
    place = torch.arange(6) - starts[expert[order]]
    grouped = x.new_zeros(3, size, 4)
    grouped[expert[order], place] = x[order]
    out = torch.bmm(grouped, torch.ones(3, 4, 4))
    return out[expert[order], place][order.argsort()]


@idiom((r(6, 4), ints(3, 6)), (r(6, 4), t(2, 2, 2, 2, 2, 2)), (r(6, 4), ints(3, 6)), (r(6, 4), t(0, 0, 0, 0, 0, 1)))
def used_experts_only(x, expert):
    """The experts that have any tokens, by `unique` with counts."""
    used, inverse, counts = torch.unique(expert, return_inverse=True, return_counts=True)
    sums = x.new_zeros(used.shape[0], 4).index_add_(0, inverse, x)
    return sums / counts[:, None], used.numel() / 3


@idiom((r(6, 4), r(6)), (r(6, 4), -r(6).abs()), (r(6, 4), r(6).abs()), (r(6, 4), t(-1.0, 3.0, -1.0, -1.0, -1.0, -1.0)))
def load_as_fraction(x, gate):
    """The share of the tokens that are worked on, as a Python number."""
    active = gate > 0
    share = int(active.sum()) / active.numel()
    return x * share + (1 - share), share


@idiom((r(6, 4), t(0.5)), (r(6, 4), t(0.0)), (r(6, 4), t(1.0)), (r(6, 4), t(0.17)))
def keep_rate(x, rate):
    """As many rows as a rate says, at least one."""
    keep = max(1, int(x.shape[0] * rate.item()))
    rows = x.norm(dim=1).topk(keep).indices.sort().values
    return x[rows], keep


@idiom((r(2, 5, 4), r(2, 5)), (r(2, 5, 4), -r(2, 5).abs()), (r(2, 5, 4), r(2, 5).abs()), (r(2, 5, 4), r(2, 5)))
def merge_tokens(x, score):
    """Tokens that are dropped become one mean token behind the others."""
    kept = score > 0
    mean = x[~kept].mean(0, keepdim=True)
    return torch.cat([x[kept], mean])
