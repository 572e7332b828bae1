"""Uniqueness, buckets, segments, graphs, histograms."""

from __future__ import annotations

import torch

from tests.shapes.idioms.registry import BRANCH, VALUE, flags, idiom, ints, r, t


@idiom(
    (ints(4, 6), r(6, 2)),
    (t(1, 1, 1, 1, 1, 1), r(6, 2)),
    (t(0, 1, 2, 3, 4, 5), r(6, 2)),
    (ints(2, 6), r(6, 2)),
    traced=True,
)
def unique_embedding(ids, table):
    """Rows are looked up once for every distinct id."""
    unique, inverse = torch.unique(ids, return_inverse=True)
    return (table[unique] * 2)[inverse], unique


@idiom((ints(4, 6), r(6, 2)), (t(1, 1, 1, 1, 1, 1), r(6, 2)), (t(0, 1, 2, 3, 4, 5), r(6, 2)), (ints(2, 6), r(6, 2)))
def mean_by_group(ids, x):
    """Means of the groups that occur."""
    unique, inverse, counts = ids.unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(unique.shape[0], x.shape[1]).index_add_(0, inverse, x)
    return sums / counts[:, None], unique


@idiom((ints(4, 6),), (t(1, 1, 1, 1, 1, 1),), (t(0, 1, 2, 3, 4, 5),), (torch.zeros(0, dtype=torch.long),))
def run_lengths(x):
    """Runs of equal values: values, lengths, and back."""
    values, counts = torch.unique_consecutive(x, return_counts=True)
    return values, counts, torch.repeat_interleave(values, counts)


@idiom(
    (ints(4, 6), r(6, 2)),
    (t(3, 3, 3, 3, 3, 3), r(6, 2)),
    (t(0, 0, 0, 0, 0, 0), r(6, 2)),
    (t(0, 0, 1, 1, 7, 7), r(6, 2)),
)
def segment_sum(segment, x):
    """As many segments as the data has, counted from the largest id."""
    count = int(segment.max()) + 1
    return torch.zeros(count, x.shape[1]).scatter_add_(0, segment[:, None].expand(-1, x.shape[1]), x)


@idiom(
    (ints(4, 6), r(6, 2)),
    (t(3, 3, 3, 3, 3, 3), r(6, 2)),
    (t(0, 0, 0, 0, 0, 0), r(6, 2)),
    (t(0, 2, 1, 1, 2, 2), r(6, 2)),
)
def global_pool(batch, x):
    """Graph pooling, with the number of graphs from the batch vector."""
    size = batch.max().item() + 1
    total = x.new_zeros(size, x.size(1)).index_add(0, batch, x)
    count = torch.bincount(batch, minlength=size).clamp(min=1)
    return total / count.unsqueeze(1)


@idiom(
    (r(4, 2), ints(4, 2, 5)),
    (r(4, 2), t([0, 1], [0, 1])),
    (r(4, 2), t([0, 1], [1, 0])),
    (r(4, 2), t([2], [2])),
    traced=True,
)
def without_self_loops(x, edges):
    """Self loops are removed and added again, once for every node."""
    edges = edges[:, edges[0] != edges[1]]
    loops = torch.arange(x.shape[0]).expand(2, -1)
    edges = torch.cat([edges, loops], dim=1)
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]), edges.shape[1]


@idiom((r(4, 4),), (torch.zeros(4, 4),), (torch.eye(4),), (torch.ones(4, 4),), traced=True)
def edges_of(adjacency):
    """Dense to sparse: an edge list with weights, and degrees."""
    edges = (adjacency > 0.5).nonzero().t()
    weight = adjacency[edges[0], edges[1]]
    return edges, weight, torch.zeros(4).index_add(0, edges[0], weight)


@idiom(
    (r(5), flags(1, 0, 1, 0, 1)),
    (r(5), flags(0, 0, 0, 0, 0)),
    (r(5), flags(0, 1, 0, 0, 0)),
    (r(5), flags(1, 1, 1, 1, 1)),
    traced=True,
)
def write_through_mask(x, mask):
    """Writes through masks, with values of as many elements, and in place."""
    y = x.clone()
    y[mask] = y[mask].exp()
    x[~mask] -= 1
    return y, x[mask].numel() + 1


@idiom((r(6), t(3.0)), (r(6), t(-9.0)), (r(6), t(9.0)), (r(6), t(0.0)), traced=True)
def outliers(x, threshold):
    """Quantisation keeps the outliers apart."""
    scale = x.abs().max() / 127
    is_outlier = x.abs() > threshold
    index = is_outlier.nonzero().squeeze(1)
    quantised = torch.round(x.masked_fill(is_outlier, 0) / scale).to(torch.int8)
    back = quantised.float() * scale
    back[index] = x[index]
    return back, index


@idiom((r(6),), (torch.zeros(6),), (r(6) * 100,), (r(6) / 100,))
def scale_as_number(x):
    """A scale that is read out and used as a number."""
    scale = x.abs().max().item()
    return x / (scale + 1), x * scale, torch.full((2,), scale)


@idiom((r(8), t(0.0, 1.0)), (r(8), t(9.0, 9.5)), (r(8), t(-9.0, 9.0)), (r(8) * 3, t(-1.0, 2.0)))
def bucket_by_bucket(x, borders):
    """Values of each bucket, reduced one after the other."""
    bucket = torch.bucketize(x, borders)
    return torch.stack([x[bucket == i].sum() for i in range(3)]), torch.bincount(bucket, minlength=3)


@idiom((ints(5, 8),), (t(0, 0, 0, 0, 0, 0, 0, 0),), (t(4, 4, 4, 4, 4, 4, 4, 4),), (ints(2, 8),))
def histogram(x):
    """Counts and entropy of the values that occur."""
    counts = torch.bincount(x)
    p = counts[counts > 0] / x.numel()
    return counts, -(p * p.log()).sum()


@idiom(
    (r(2, 4), ints(3, 2, 4)),
    (r(2, 4), torch.zeros(2, 4, dtype=torch.long)),
    (r(2, 4), torch.ones(2, 4, dtype=torch.long)),
    (r(2, 4), ints(2, 2, 4)),
    traced=True,
)
def hard_examples(loss, labels):
    """The losses of hard negatives and all positives are added."""
    positive = labels > 0
    negatives = loss[~positive].sort(descending=True).values
    return loss[positive].sum() + negatives[:2].sum(), positive.sum()


@idiom(
    (r(5, 2), r(5)),
    (r(5, 2), -r(5).abs()),
    (r(5, 2), r(5).abs()),
    (r(5, 2), t(-1.0, -1.0, 3.0, -1.0, -1.0)),
    breaks=BRANCH,
)
def empty_or_mean(x, score):
    """A default for nothing, asked by the number of rows."""
    chosen = x[score > 0]
    if chosen.shape[0] == 0:
        return x.new_zeros(2)
    return chosen.mean(0)


@idiom(
    (r(6, 2), flags(0, 1, 0, 0, 1, 0)),
    (r(6, 2), flags(0, 0, 0, 0, 0, 0)),
    (r(6, 2), flags(1, 1, 1, 1, 1, 1)),
    (r(6, 2), flags(0, 0, 0, 0, 0, 1)),
)
def episodes(rewards, done):
    """Returns of the episodes that ended, from the places where they did."""
    ends = torch.nonzero(done).flatten()
    starts = torch.cat([torch.zeros(1, dtype=torch.long), ends + 1])[:-1]
    total = torch.cat([torch.zeros(1, 2), rewards.cumsum(0)])
    return total[ends + 1] - total[starts], (ends - starts + 1).float()


@idiom((r(6), t(2)), (r(6), t(0)), (r(6), t(6)), (r(6), t(1)))
def replay_sample(buffer, filled):
    """A batch drawn from the filled part of a buffer."""
    n = filled.item()
    part = buffer[:n]
    order = torch.arange(n).flip(0)
    return part[order], part.sum() / max(n, 1)


@idiom(
    ([r(2), r(3), r(4)], t(1)),
    ([r(2), r(3), r(4)], t(0)),
    ([r(2), r(3), r(4)], t(2)),
    ([r(2), r(3), r(4)], t(-1)),
    breaks=VALUE,
)
def list_by_tensor(items, index):
    """A tensor as the index of a list."""
    return items[index] * 2


@idiom((r(4, 4), t(2)), (r(4, 4), t(4)), (r(4, 4), t(1)), (r(4, 4), t(3)))
def low_rank(x, rank):
    """A decomposition cut at a rank that the data gives."""
    k = rank.item()
    q, s = torch.linalg.qr(x @ x.T)
    return q[:, :k] @ s[:k], torch.eye(k), torch.zeros(k, 2)


@idiom((r(5), t(3)), (r(5), t(0)), (r(5), t(5)), (r(5), t(1)), breaks=VALUE)
def loop_by_data(x, steps):
    """As many steps as a tensor says."""
    for _ in range(steps.item()):
        x = torch.tanh(x)
    return x


@idiom((r(5), t(0.5)), (r(5), t(0.0)), (r(5), t(1.0)), (r(5), t(0.3)))
def fraction_of_rows(x, fraction):
    """A number of rows calculated from a float."""
    k = int(fraction.item() * x.shape[0])
    return x.sort().values[:k], k
