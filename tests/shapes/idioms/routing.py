"""Mixtures of experts and other routing by data."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.idioms.registry import BRANCH, flags, idiom, ints, r, t


@idiom((r(6, 4),), (r(6, 4),), (torch.zeros(6, 4),), (r(6, 4) * 3,), traced=True)
class ExpertLoop(nn.Module):
    """Mixtral's loop: each expert takes its tokens by `where`, and adds to them by `index_add_`."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            place, token = torch.where(mask[i])
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return out


@idiom(
    (r(5, 4), t(0, 1, 1, 2, 0)), (r(5, 4), t(2, 2, 2, 2, 2)), (r(5, 4), t(0, 0, 1, 1, 2)), (r(5, 4), t(1, 0, 0, 0, 0))
)
def experts_by_mask(x, chosen):
    """Each expert is applied to the rows of a mask, and written back through the mask."""
    out = torch.zeros_like(x)
    for i in range(3):
        mine = chosen == i
        out[mine] = x[mine] * (i + 1) + i
    return out


@idiom(
    (r(6, 3), t(2, 0, 1, 1, 0, 2)),
    (r(6, 3), t(0, 0, 0, 0, 0, 0)),
    (r(6, 3), t(1, 1, 2, 2, 0, 0)),
    (r(6, 3), t(2, 2, 2, 2, 2, 1)),
)
def sorted_dispatch(x, expert):
    """Tokens are sorted by expert and split by counts, as grouped matrix products want them."""
    order = expert.argsort(stable=True)
    counts = torch.bincount(expert, minlength=3)
    weight = torch.arange(27.0).reshape(3, 3, 3)
    parts = torch.split(x[order], counts.tolist())
    out = torch.cat([part @ weight[i] for i, part in enumerate(parts)])
    return torch.empty_like(out).index_copy_(0, order, out)


@idiom(
    (r(6, 3), ints(3, 6)),
    (r(6, 3), t(0, 0, 0, 0, 0, 0)),
    (r(6, 3), ints(3, 6)),
    (r(6, 3), t(1, 2, 1, 2, 1, 2)),
    traced=True,
)
def capacity_dispatch(x, expert):
    """Tokens beyond an expert's capacity are dropped."""
    onehot = F.one_hot(expert, 3)
    position = (onehot.cumsum(0) * onehot).sum(1) - 1
    keep = position < 2
    slots = torch.zeros(3, 2, 3)
    slots[expert[keep], position[keep]] = x[keep]
    return slots, keep.sum()


@idiom(
    (r(6, 3), flags(1, 0, 1, 1, 0, 0)),
    (r(6, 3), flags(0, 0, 0, 0, 0, 0)),
    (r(6, 3), flags(0, 0, 1, 0, 0, 0)),
    (r(6, 3), flags(1, 1, 1, 1, 1, 1)),
    traced=True,
)
def conditional_compute(x, active):
    """Only active rows go through the expensive part."""
    rows = active.nonzero().squeeze(-1)
    y = torch.tanh(x.index_select(0, rows) @ torch.ones(3, 3))
    return x.index_copy(0, rows, y)


@idiom((r(2, 5, 4), t(2)), (r(2, 5, 4), t(5)), (r(2, 5, 4), t(1)), (r(2, 5, 4), t(3)))
def depth_by_data(x, keep):
    """Mixture of depths: as many tokens as the data says take part."""
    k = int(keep)
    scores = x.norm(dim=-1)
    top = scores.topk(k, dim=1).indices.sort(dim=1).values
    index = top.unsqueeze(-1).expand(-1, -1, x.shape[-1])
    return x.scatter_add(1, index, x.gather(1, index) * 2)


@idiom(
    (r(4, 3), t(1, 0, 1, 1)),
    (r(4, 3), t(0, 0, 0, 0)),
    (r(4, 3), t(0, 1, 0, 0)),
    (r(4, 3), t(1, 1, 1, 1)),
    breaks=BRANCH,
)
def skip_empty_experts(x, chosen):
    """An expert without tokens is not run: a branch on data."""
    out = torch.zeros_like(x)
    for i in range(2):
        mine = chosen == i
        if mine.any():
            out[mine] += x[mine] * (i + 2)
    return out


@idiom((r(6, 4), ints(2, 6)), (r(6, 4), t(1, 1, 1, 1, 1, 1)), (r(6, 4), ints(2, 6)), (r(6, 4), t(0, 1, 0, 0, 0, 0)))
def balance_loss(x, chosen):
    """Auxiliary loss from the share of tokens, as numbers."""
    total = chosen.numel()
    shares = [(chosen == i).sum().item() / total for i in range(2)]
    probability = x.softmax(-1).mean(0)
    return sum(share * probability[i] for i, share in enumerate(shares))
