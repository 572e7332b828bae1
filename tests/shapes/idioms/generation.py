"""Decoding: caches, sampling, beams, speculation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.idioms.registry import BRANCH, flags, idiom, ints, r, t


@idiom((r(2, 3, 4), t(0)), (r(2, 3, 4), t(3)), (r(2, 3, 4), t(5)), (r(2, 3, 4), t(1)), traced=True)
class CachedAttention(nn.Module):
    """New keys and values are written at a position, and everything up to there is attended to."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 8, 4))
        self.register_buffer("v", torch.zeros(2, 8, 4))

    def forward(self, x, start):
        n = x.shape[1]
        self.k[:, start : start + n] = x
        self.v[:, start : start + n] = x * 2
        keys, values = self.k[:, : start + n], self.v[:, : start + n]
        return F.scaled_dot_product_attention(x, keys, values)


@idiom((r(2, 3, 4), t(0)), (r(2, 1, 4), t(3)), (r(2, 1, 4), t(4)), (r(2, 1, 4), t(7)))
class StaticCache(nn.Module):
    """Prefill, then decoding; the whole cache is attended to under a mask."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 8, 4))

    def forward(self, x, start):
        positions = start + torch.arange(x.shape[1])
        self.k.index_copy_(1, positions, x)
        mask = torch.arange(8)[None] <= positions[:, None]
        return F.scaled_dot_product_attention(x, self.k, self.k, attn_mask=mask)


@idiom((r(3, 8), t(0.7)), (r(3, 8), t(0.01)), (r(3, 8), t(1.0)), (r(3, 8), t(0.3)), traced=True)
def top_p(logits, p):
    """Nucleus filtering, without a change of shape."""
    ordered, order = logits.sort(descending=True)
    remove = ordered.softmax(-1).cumsum(-1) > p
    remove[:, 1:] = remove[:, :-1].clone()
    remove[:, 0] = False
    return logits.masked_fill(remove.scatter(1, order, remove), float("-inf")).softmax(-1)


@idiom((r(8), t(0.7)), (r(8), t(0.01)), (r(8), t(1.0)), (r(8), t(0.3)))
def top_p_cut(logits, p):
    """Nucleus sampling on what is left: as many candidates as are needed."""
    probs, order = logits.softmax(-1).sort(descending=True)
    count = int((probs.cumsum(0) < p).sum()) + 1
    probs, order = probs[:count], order[:count]
    probs = probs / probs.sum()
    return probs, order[torch.argmax(probs)], torch.multinomial(probs, 1)


@idiom((r(3, 8), t(3)), (r(3, 8), t(1)), (r(3, 8), t(8)), (r(3, 8), t(5)))
def top_k_from_data(logits, k):
    """k is a tensor, as when it comes with a request."""
    k = k.item()
    smallest = torch.topk(logits, k, dim=-1).values[:, -1:]
    return torch.where(logits < smallest, float("-inf"), logits)


@idiom((r(8), t(1, 5, 5)), (r(8), torch.zeros(0, dtype=torch.long)), (r(8), t([2])), (r(8), t(0, 1, 2, 3, 4, 5, 6, 7)))
def repetition_penalty(logits, previous):
    """Scores of the distinct tokens so far are made worse."""
    seen = torch.unique(previous)
    score = logits[seen]
    return logits.index_put((seen,), torch.where(score < 0, score * 1.2, score / 1.2)), seen


@idiom(
    (r(2, 3, 5), r(2, 3)),
    (r(2, 3, 5) * 9, r(2, 3)),
    (r(2, 3, 5), torch.zeros(2, 3)),
    (torch.zeros(2, 3, 5), r(2, 3)),
    traced=True,
)
def beam_step(logits, scores):
    """One step of beam search: the best continuations of all beams."""
    b, k, v = logits.shape
    total = scores[..., None] + logits.log_softmax(-1)
    best, flat = total.view(b, k * v).topk(k)
    return best, flat // v, flat % v


@idiom(
    (r(4, 2), t(1, 7, 3, 7)), (r(4, 2), t(7, 7, 7, 7)), (r(4, 2), t(1, 2, 3, 4)), (r(4, 2), t(7, 1, 1, 1)), traced=True
)
def finished_beams(scores, last):
    """Finished sequences leave the batch."""
    done = last == 7
    alive = torch.nonzero(~done).view(-1)
    return scores[done], scores.index_select(0, alive), alive.numel()


@idiom(
    (ints(9, 5), ints(9, 5)),
    (t(1, 2, 3, 4, 5), t(1, 2, 3, 4, 5)),
    (t(1, 2, 3, 4, 5), t(0, 2, 3, 4, 5)),
    (t(1, 2, 3, 4, 5), t(1, 2, 0, 4, 5)),
    reruns=1,
)
def accept_draft(draft, target):
    """Speculative decoding: the longest prefix on which both models agree, and one token more."""
    agree = (draft == target).int().cumprod(0)
    n = agree.sum().item()
    tokens = target[: n + 1]
    return tokens, n


@idiom(
    (ints(9, 2, 5), ints(9, 2, 5)),
    (t([1, 2], [3, 4]), t([1, 2], [3, 4])),
    (t([1, 2], [3, 4]), t([0, 2], [3, 0])),
    (ints(2, 2, 5), ints(2, 2, 5)),
)
def accept_batch(draft, target):
    """The same for a batch, cut to what the luckiest row accepts."""
    accepted = (draft == target).int().cumprod(1).sum(1)
    longest = int(accepted.max())
    valid = torch.arange(longest) < accepted[:, None]
    return torch.where(valid, target[:, :longest], -1), accepted


@idiom((r(4), t(0)), (r(4), t(1)), (r(4), t(2)), (r(4), t(1)), breaks=BRANCH)
def early_exit(x, difficulty):
    """Layers are left as soon as the data is easy enough."""
    for i in range(3):
        x = torch.tanh(x + i)
        if difficulty <= i:
            return x, i
    return x, 3


@idiom((ints(5, 1, 3), t(2)), (ints(5, 1, 3), t(0)), (ints(5, 1, 3), t(1)), (ints(5, 1, 3), t(3)), breaks=BRANCH)
def greedy_loop(ids, end):
    """Tokens are appended until the end token comes, at most four."""
    weight = torch.eye(5).roll(1, 1)
    for _ in range(4):
        token = weight[ids[:, -1]].argmax(-1)
        ids = torch.cat([ids, token[:, None]], 1)
        if (token == end).all():
            break
    return ids


@idiom(
    (r(4, 6), flags(1, 0, 0, 1)),
    (r(4, 6), flags(0, 0, 0, 0)),
    (r(4, 6), flags(1, 1, 1, 1)),
    (r(4, 6), flags(0, 1, 0, 0)),
)
def evict_cache(cache, keep):
    """Rows of a cache that are kept move to the front."""
    kept = cache[keep]
    n = kept.shape[0]
    cache = cache.clone()
    cache[:n] = kept
    cache[n:] = 0
    return cache, n


@idiom((r(6, 2), t(4)), (r(6, 2), t(0)), (r(6, 2), t(6)), (r(6, 2), t(1)), traced=True)
def slice_by_tensor(x, n):
    """A tensor as a bound of a slice."""
    return x[:n] * 2, x[n:].sum(0)


@idiom((r(6, 2), t(1)), (r(6, 2), t(0)), (r(6, 2), t(4)), (r(6, 2), t(2)))
def window_by_tensor(x, start):
    """A window of fixed size at a place that the data gives."""
    return x.narrow(0, start.item(), 2), torch.narrow(x, 0, start, 1), x[start]
