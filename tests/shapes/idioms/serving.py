"""Serving and graphs: packed sequences, caches, speculation, sampled neighbours, voxels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.idioms.registry import VALUE, idiom, ints, r, t

ONES, ZEROS = torch.ones(3, 5, dtype=torch.long), torch.zeros(3, 5, dtype=torch.long)
EDGES = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 4]])


@idiom((ints(2, 3, 5), r(3, 5, 4)), (ONES, r(3, 5, 4)), (ZEROS, r(3, 5, 4)), (ONES[:1, :1], r(1, 1, 4)))
def unpad_and_pad(mask, x):
    """Rows without padding, their lengths as offsets, and back."""
    lengths = mask.sum(-1, dtype=torch.int32)
    places = torch.nonzero(mask.flatten(), as_tuple=False).flatten()
    offsets = F.pad(torch.cumsum(lengths, 0, dtype=torch.int32), (1, 0))
    out = torch.zeros(mask.numel(), 4)
    out[places] = x.reshape(-1, 4)[places] * 2
    return out.view(*mask.shape, 4), offsets, lengths.max().item()


@idiom((r(9, 4), t(0, 3, 9)), (r(9, 4), t(0, 9, 9)), (r(1, 4), t(0, 0, 1)), (r(7, 4), t(0, 2, 7)))
def attention_by_offsets(x, offsets):
    """Splitting by lengths, after another size has changed."""
    parts = torch.split(x, (offsets[1:] - offsets[:-1]).tolist(), dim=0)
    return torch.cat([torch.softmax(part @ part.T, -1) @ part for part in parts])


@idiom((r(2, 7, 4),), (r(1, 1, 4),), (torch.zeros(2, 7, 4),), (r(2, 7, 4) * 9,), traced=True)
def collapsed_batch(logits):
    """CTC for a batch, packed to the left."""
    best = logits.argmax(-1)
    keep = (best != F.pad(best[:, :-1], (1, 0), value=-1)) & (best != 0)
    lengths = keep.sum(1)
    out = best.new_zeros(best.size(0), max(int(lengths.max()), 1))
    rows, places = keep.nonzero(as_tuple=True)
    out[rows, (keep.cumsum(1) - 1)[rows, places]] = best[rows, places]
    return out, lengths


@idiom((ints(5, 4), r(5, 5)), (t(0, 0), r(3, 5) - 50 * torch.eye(5)[:3]), (ints(5, 1), r(2, 5)), (ints(5, 4), r(5, 5)))
def accepted_and_next(draft, logits):
    """The accepted tokens of a draft, and the token behind them."""
    target = logits.argmax(-1)
    n = (draft != target[:-1]).int().cumsum(0).eq(0).sum()
    return torch.cat([draft[:n], target[n][None]]), n


@idiom(
    (r(1, 2, 8, 4), r(8), t(3)), (r(1, 2, 8, 4), r(8), t(8)), (r(1, 2, 8, 4), r(8), t(1)), (r(1, 2, 2, 4), r(2), t(2))
)
def heavy_hitters(cache, score, budget):
    """A budget of places, the last one always."""
    chosen = score[:-1].topk(budget.item() - 1).indices.sort().values
    keep = torch.cat([chosen, torch.arange(score.numel() - 1, score.numel())])
    return cache[:, :, keep], score[keep]


@idiom((r(3, 4),), (r(3, 4) * 0,), (r(1, 4),), (r(3, 4) * 9,))
class RowsLeave(nn.Module):
    """Rows that are sure leave early."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        out, rows = torch.zeros_like(x), torch.arange(x.size(0))
        for layer in self.layers:
            x = layer(x).tanh()
            done = x.amax(-1) > 0.6
            out[rows[done]] = x[done]
            rows, x = rows[~done], x[~done]
        out[rows] = x
        return out


@idiom((EDGES, t(0, 1)), (EDGES[:, :0], t(0, 1)), (EDGES[:, :1] * 0, t(0, 0)), (EDGES, t(4, 3)))
def two_hops(edges, seeds):
    """The nodes around some, and the edges between them."""
    near, found = torch.zeros(5, dtype=torch.bool), [seeds]
    for _ in range(2):
        near.fill_(False)
        near[found[-1]] = True
        found.append(edges[1][near[edges[0]]])
    nodes, inverse = torch.cat(found).unique(return_inverse=True)
    near.fill_(False)
    near[nodes] = True
    names = torch.full((5,), -1)
    names[nodes] = torch.arange(nodes.size(0))
    return nodes, names[edges[:, near[edges[0]] & near[edges[1]]]], inverse[: seeds.numel()]


@idiom((r(6), t(0, 0, 1, 1, 2, 2)), (r(6), t(0, 0, 0, 0, 0, 0)), (r(6), torch.arange(6)), (r(1), torch.tensor([0])))
def best_of_each_graph(score, batch):
    """Half of the nodes of each graph."""
    counts = torch.zeros(int(batch.max()) + 1, dtype=torch.long).scatter_add_(0, batch, torch.ones_like(batch))
    order = torch.sort(score, descending=True).indices
    graphs, again = torch.sort(batch[order], stable=True)
    rank = torch.arange(score.numel()) - F.pad(counts.cumsum(0), (1, 0))[:-1][graphs]
    return order[again][rank < (0.5 * counts.float()).ceil().long()[graphs]]


@idiom((r(6, 4), r(6, 3)), (r(1, 4), r(1, 3)), (r(6, 4), r(6, 3)), (r(5, 4), t([9.0, 0, 0]).repeat(5, 1)), breaks=VALUE)
def experts_that_are_hit(x, logits):
    """A loop over the experts that have any tokens."""
    mask = F.one_hot(logits.topk(1, dim=-1).indices, 3).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
        _, tokens = torch.where(mask[expert].squeeze(0))
        out[tokens] += x[tokens] * (expert + 1)
    return out
