"""Graphs, sparse data, tables: counts, segments, joins."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.shapes.idioms.registry import idiom, ints, r, t

BATCHES = [
    (r(6, 3), t(0, 0, 1, 1, 1, 2)), (r(6, 3), t(0, 0, 0, 0, 0, 0)), (r(6, 3), t(0, 1, 2, 3, 4, 5)),
    (r(6, 3), t(0, 0, 0, 3, 3, 3)), (r(1, 3), t([0])),
]  # fmt: skip


@idiom(*BATCHES)
def pooled(x, batch):
    """The mean, sum and maximum of each graph of a batch."""
    size = int(batch.max()) + 1
    total = x.new_zeros(size, 3).index_add_(0, batch, x)
    most = x.new_full((size, 3), -9.0).scatter_reduce_(0, batch[:, None].expand_as(x), x, "amax")
    return torch.cat([total / torch.bincount(batch).clamp(min=1)[:, None], most], 1)


@idiom(*BATCHES)
def dense_batch(x, batch):
    """Graphs as rows of one tensor, padded to the largest."""
    counts = torch.bincount(batch)
    size, longest = counts.numel(), counts.max().item()
    place = torch.arange(x.shape[0]) - (counts.cumsum(0) - counts)[batch]
    dense = x.new_zeros(size, longest, 3)
    dense[batch, place] = x
    mask = torch.arange(longest)[None] < counts[:, None]
    return dense, mask


@idiom(*BATCHES)
def softmax_by_segment(x, batch):
    size = batch[-1].item() + 1
    most = x.new_full((size, 3), float("-inf")).scatter_reduce(0, batch[:, None].expand_as(x), x, "amax")
    out = (x - most[batch]).exp()
    return out / out.new_zeros(size, 3).index_add_(0, batch, out)[batch]


@idiom(*BATCHES)
def first_of_group(x, batch):
    """The first row of each group that there is."""
    _, counts = torch.unique_consecutive(batch, return_counts=True)
    return x[counts.cumsum(0) - counts]


@idiom(*BATCHES)
def split_by_group(x, batch):
    return [part.sum(0) for part in x.split(torch.bincount(batch, minlength=6).tolist())]


@idiom((r(5, 3), t(2.0)), (r(5, 3), t(0.0)), (r(5, 3), t(99.0)), (r(5, 3), t(1.0)))
def radius_graph(x, radius):
    """Edges between near points, sums of their differences."""
    source, target = ((torch.cdist(x, x) < radius) & ~torch.eye(5, dtype=torch.bool)).nonzero(as_tuple=True)
    return torch.zeros_like(x).index_add_(0, target, x[source] - x[target]), source.shape[0] / 5


@idiom((ints(5, 6), ints(5, 4)), (t(0, 0, 0), t(1, 1)), (t(1, 2, 3), t(1, 2, 3)), (ints(5, 6), ints(5, 4)))
def intersection(left, right):
    """What is in both."""
    found, counts = torch.cat([left.unique(), right.unique()]).unique(return_counts=True)
    return found[counts > 1], torch.isin(left, right).sum().item()


@idiom(
    (ints(9, 7), t(0, 2, 5)), (ints(9, 7), t(0, 0, 0)), (ints(9, 7), t(0, 6, 7)), (ints(9, 7), t(0, 1, 2)),
)  # fmt: skip
def bag_of_words(ids, offsets):
    return F.embedding_bag(ids, torch.arange(18.0).view(9, 2), offsets)


@idiom((ints(4, 8),), (t(0, 0, 0),), (t(3, 3, 1),), (ints(9, 8),))
def vocabulary(ids):
    """As wide as the largest id."""
    size = ids.max().item() + 1
    return F.one_hot(ids, size).sum(0), torch.eye(size)[ids].sum()


@idiom((t(2, 0, 3),), (t(0, 0, 0),), (t(1, 0, 0),), (t(5, 1, 1),))
def positions_in_runs(lengths):
    """0, 1, 2… in each run."""
    starts = lengths.cumsum(0) - lengths
    total = int(lengths.sum())
    return torch.arange(total) - torch.repeat_interleave(starts, lengths, output_size=total)


@idiom((t(2, 0, 3),), (t(0, 0, 0),), (t(1, 0, 0),), (t(5, 1, 1),))
def block_mask(lengths):
    """Who may see whom among packed sequences."""
    owner = torch.repeat_interleave(torch.arange(3), lengths)
    return (owner[:, None] == owner[None]) & torch.ones(owner.shape[0], owner.shape[0], dtype=torch.bool).tril()


@idiom((t(3),), (t(0),), (t(1),), (t(5),))
def pairs(n):
    """All pairs below the diagonal of a size from data."""
    rows, columns = torch.tril_indices(n.item(), n.item(), -1)
    return rows + columns


@idiom((r(7), t(2, 5)), (r(7), t(0, 0)), (r(7), t(7, 7)), (r(7), t(3, 4)))
def cut_at(x, places):
    """Parts between places."""
    return [part.sum() for part in torch.tensor_split(x, places.tolist())]


@idiom((r(8, 3), t(2)), (r(8, 3), t(3)), (r(8, 3), t(8)), (r(8, 3), t(1)), breaks=("data-dependent-value",))
def chunks_of(x, size):
    """Dynamic chunking: how many there are is a number of the data."""
    return torch.stack([chunk.sum(0) for chunk in x.split(size.item())])
