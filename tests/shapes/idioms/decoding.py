"""Decoding: caches, beams, stopping, speculation; and training with numbers read from tensors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.shapes.idioms.registry import idiom, ints, r, t


@idiom((r(1, 6, 4), t(2)), (r(1, 6, 4), t(0)), (r(1, 6, 4), t(5)), (r(1, 6, 4), t(6)))
def sliding_window(keys, end):
    """The last four entries before an end."""
    end = end.item()
    return keys[:, max(end - 4, 0) : end].sum(1)


@idiom((r(2, 6), t(0.8)), (r(2, 6), t(0.0)), (r(2, 6), t(1.0)), (r(2, 6), t(0.3)))
def nucleus(logits, p):
    """The probabilities of the nucleus of the first row, cut off."""
    probs, order = logits[0].softmax(-1).sort(descending=True)
    n = int((probs.cumsum(0) < p).sum().item()) + 1
    n = min(n, 6)
    return order[:n], probs[:n] / probs[:n].sum()


@idiom((r(2, 6), t(0.8)), (r(2, 6), t(0.1)), (r(2, 6), t(1.0)), (r(2, 6), t(2.0)))
def temperature(logits, value):
    """A temperature as a number."""
    return (logits / max(value.item(), 1e-5)).softmax(-1)


@idiom((r(2, 6), t(0.8)), (r(2, 6), t(0.1)), (r(2, 6), t(1.0)), (r(2, 6), t(2.0)))
def entropy_gate(logits, limit):
    """A number compared and used as a weight."""
    probs = logits.softmax(-1)
    entropy = -(probs * probs.log()).sum(-1).mean()
    sharp = float(entropy.item() < limit.item())
    return probs * sharp + (1 - sharp) / 6


@idiom((ints(5, 2, 7), t(2)), (ints(5, 2, 7), t(9)), (torch.full((2, 7), 2), t(2)), (ints(5, 2, 7), t(1)))
def rows_not_done(ids, stop):
    """Only rows that go on are worked on."""
    going = ~(ids == stop).any(1)
    hidden = ids.float().clone()
    hidden[going] = hidden[going] * 2 + 1
    return hidden, going.sum().item()


@idiom((ints(9, 12), t(4)), (ints(9, 12), t(12)), (ints(9, 12), t(3)), (ints(9, 12), t(6)))
def fold_into_rows(ids, width):
    """As many whole rows as fit."""
    width = width.item()
    rows = ids.numel() // width
    return ids[: rows * width].view(rows, width).sum(1)


@idiom((r(4, 3), ints(3, 4)), (r(4, 3), t(0, 0, 0, 0)), (r(4, 3), t(0, 1, 1, 2)), (r(4, 3), t(2, 2, 2, 2)))
def class_weights(logits, labels):
    """Weights from how often a class is there."""
    counts = torch.bincount(labels, minlength=3).tolist()
    weights = torch.tensor([1.0 / (1 + n) for n in counts])
    return F.cross_entropy(logits, labels, weight=weights)


@idiom((r(4, 3), t(3)), (r(4, 3), t(1)), (r(4, 3), t(100)), (r(4, 3), t(10)))
def warm_up(x, step):
    """A rate from a step in a tensor."""
    step = step.item()
    rate = 0.5 * min(step**-0.5, step * 10**-1.5)
    return x * rate


@idiom((r(4, 3), t(3)), (r(4, 3), t(0)), (r(4, 3), t(100)), (r(4, 3), t(10)))
def cosine_rate(x, step):
    return x * (0.5 * (1 + math.cos(math.pi * step.item() / 100)))


@idiom((r(4, 3), t(3)), (r(4, 3), t(1)), (r(4, 3), t(100)), (r(4, 3), t(10)))
def bias_correction(x, step):
    n = int(step)
    return x / (1 - 0.9**n)


@idiom((r(4, 3),), (r(4, 3) * 100,), (r(4, 3) * 0,), (r(4, 3),))
def clip_by_norm(x):
    """A factor from a norm as a number."""
    norm = x.norm().item()
    factor = min(1.0, 1.0 / (norm + 1e-6))
    return x * factor, norm


@idiom((r(4, 3),), (r(4, 3) * 0,), (r(4, 3).abs(),), (-r(4, 3).abs(),))
def statistics(x):
    """Numbers for a log next to the result."""
    positive = x[x > 0]
    return x.relu(), {"count": positive.numel(), "share": positive.numel() / x.numel(), "sum": positive.sum().item()}


@idiom((r(6, 3), t(2, 5)), (r(6, 3), t(0, 0)), (r(6, 3), t(0, 6)), (r(6, 3), t(3, 4)))
def swap_parts(x, places):
    """Parts of a sequence in another order."""
    a, b = places.tolist()
    return torch.cat([x[b:], x[a:b], x[:a]])


@idiom((r(6, 3), t(2)), (r(6, 3), t(0)), (r(6, 3), t(5)), (r(6, 3), t(1)))
def row_of_data(x, index):
    """A row that a number chooses, and its neighbours as far as there are any."""
    i = index.item()
    return x[i] + x[max(i - 1, 0)] + x[min(i + 1, 5)]
