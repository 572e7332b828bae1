"""Decoding: caches, beams, stopping, speculation; and training with numbers read from tensors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.idioms.registry import BRANCH, idiom, ints, r, t


@idiom(
    (r(2, 3, 4), t(0)), (r(2, 1, 4), t(3)), (r(2, 1, 4), t(4)), (r(2, 1, 4), t(7)), (r(2, 1, 4), t(1)),
)  # fmt: skip
class Cache(nn.Module):
    """Keys are written at a place that is a tensor, and read up to there."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 4))

    def forward(self, x, start):
        n = x.shape[1]
        self.keys[:, start : start + n] = x
        seen = self.keys[:, : start + n]
        scores = x @ seen.transpose(1, 2) / math.sqrt(x.shape[-1])
        mask = torch.arange(seen.shape[1])[None] > torch.arange(n)[:, None] + start
        return scores.masked_fill(mask, float("-inf")).softmax(-1) @ seen


@idiom((r(1, 6, 4), t(2)), (r(1, 6, 4), t(0)), (r(1, 6, 4), t(5)), (r(1, 6, 4), t(6)))
def sliding_window(keys, end):
    """The last four entries before an end."""
    end = end.item()
    return keys[:, max(end - 4, 0) : end].sum(1)


@idiom((r(3, 6), r(3)), (r(3, 6) * 0, r(3)), (r(3, 6), r(3) * 0), (r(3, 6), r(3)))
def beams(logits, scores):
    """Scores of beams, finished ones apart."""
    total = (logits.log_softmax(-1) + scores[:, None]).flatten()
    best, flat = total.topk(3)
    beam, token = flat // 6, flat % 6
    done = token == 0
    return best[~done], beam[~done], best[done] / math.log(7), done.sum()


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


@idiom((ints(5, 7), t(2)), (ints(5, 7), t(9)), (t(2, 2, 2, 2, 2, 2, 2), t(2)), (t(1, 1, 1, 1, 1, 1, 2), t(2)))
def up_to_stop(ids, stop):
    """All tokens before the first stop token."""
    seen = (ids == stop).cumsum(0) > 0
    return ids[~seen]


@idiom((ints(5, 2, 7), t(2)), (ints(5, 2, 7), t(9)), (torch.full((2, 7), 2), t(2)), (ints(5, 2, 7), t(1)))
def rows_not_done(ids, stop):
    """Only rows that go on are worked on."""
    going = ~(ids == stop).any(1)
    hidden = ids.float().clone()
    hidden[going] = hidden[going] * 2 + 1
    return hidden, going.sum().item()


@idiom((ints(3, 5), ints(3, 5)), (t(1, 1, 1, 1, 1), t(1, 1, 1, 1, 1)), (t(0, 0, 0, 0, 0), t(1, 1, 1, 1, 1)), (ints(3, 5), ints(3, 5)))
def accepted(draft, target):
    """Draft tokens up to the first difference, and one of the target."""
    n = int((draft == target).cumprod(0).sum())
    return torch.cat([draft[:n], target[n : n + 1]]), n


@idiom((ints(9, 3, 6), t(0)), (ints(9, 3, 6), t(10)), (torch.zeros(3, 6, dtype=torch.long), t(0)), (ints(9, 3, 6), t(1)))
def trim_padding(ids, pad):
    """Columns in which all is padding are cut off on the right."""
    length = (ids != pad).sum(1).max()
    return ids[:, :length]


@idiom((ints(9, 12), t(4)), (ints(9, 12), t(12)), (ints(9, 12), t(3)), (ints(9, 12), t(6)))
def fold_into_rows(ids, width):
    """As many whole rows as fit."""
    width = width.item()
    rows = ids.numel() // width
    return ids[: rows * width].view(rows, width).sum(1)


@idiom((r(4, 3), ints(3, 4)), (r(4, 3), t(-100, -100, -100, 1)), (r(4, 3), t(0, 1, -100, 2)), (r(4, 3), t(2, 2, 2, 2)))
def ignored_labels(logits, labels):
    """The loss of what has a label."""
    valid = labels != -100
    return F.cross_entropy(logits[valid], labels[valid]), valid.sum().item() / 4


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


@idiom((r(4, 3), t(2)), (r(4, 3), t(0)), (r(4, 3), t(3)), (r(4, 3), t(1)), breaks=BRANCH)
def refine(x, steps):
    """A loop that ends by data."""
    while steps > 0:
        x, steps = x * 2, steps - 1
    return x


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
