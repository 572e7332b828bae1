"""Speech and text: lengths from data, alignments, collapsed sequences."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from tests.shapes.idioms.registry import idiom, ints, r, t

LENGTHS = [(r(3, 5, 2), t(3, 5, 1)), (r(3, 5, 2), t(1, 1, 1)), (r(3, 5, 2), t(5, 5, 5)), (r(3, 5, 2), t(2, 4, 2))]
DURATIONS = [
    (r(3, 4), t(2, 1, 3)), (r(3, 4), t(0, 0, 0)), (r(3, 4), t(0, 1, 0)), (r(3, 4), t(4, 4, 4)), (r(3, 4), t(1, 0, 2)),
]  # fmt: skip


@idiom((ints(3, 9),), (t(0, 0, 0, 0),), (t(1, 1, 1, 1),), (ints(3, 12),), (ints(2, 5),))
def ctc_collapse(ids):
    """Repeated symbols are one, blanks are none."""
    collapsed = torch.unique_consecutive(ids)
    return collapsed[collapsed != 0]


@idiom((r(9, 4),), (r(9, 4) * 0,), (-r(9, 4).abs(),), (r(9, 4),))
def ctc_with_scores(logits):
    """The same with the mean score of each run."""
    best, ids = logits.log_softmax(-1).max(-1)
    symbols, inverse, counts = torch.unique_consecutive(ids, return_inverse=True, return_counts=True)
    score = best.new_zeros(symbols.shape[0]).index_add_(0, inverse, best) / counts
    keep = symbols != 0
    return symbols[keep], score[keep]


@idiom(*DURATIONS)
def upsample_rows(x, durations):
    """Each row as often as its duration, padded to a multiple of four."""
    out = torch.repeat_interleave(x, durations, dim=0)
    return F.pad(out, (0, 0, 0, -out.shape[0] % 4))


@idiom(*DURATIONS)
def upsample_by_matrix(x, durations):
    """The same through a matrix of who stands where."""
    ends = durations.cumsum(0)
    total = ends[-1].item()
    frames = torch.arange(total)
    path = (frames[None] < ends[:, None]) & (frames[None] >= (ends - durations)[:, None])
    return path.float().T @ x


@idiom(*DURATIONS)
def upsample_batch(x, durations):
    """Rows repeated one by one and put next to each other."""
    parts = [row.expand(n, -1) for row, n in zip(x, durations.tolist(), strict=True)]
    return pad_sequence(parts, batch_first=True)


@idiom(*LENGTHS)
def unpadded_rows(x, lengths):
    return [row[:n].cumsum(0) for row, n in zip(x, lengths, strict=True)]


@idiom(*LENGTHS)
def strided_lengths(x, lengths):
    """Lengths behind a convolution with stride, and the frames that are left."""
    out = F.max_pool1d(x.transpose(1, 2), 2, ceil_mode=True)
    after = (lengths + 1) // 2
    return out[:, :, : after.max().item()], after


@idiom((r(40), t(8)), (r(40), t(40)), (r(40), t(20)), (r(40), t(10)))
def frames_of(signal, hop):
    """A signal cut into frames whose length is a number of the data."""
    hop = hop.item()
    return signal.view(-1, hop).pow(2).mean(-1)


@idiom((r(40), t(0.5)), (r(40), t(9.0)), (r(40), t(-1.0)), (r(40), t(1.5)), reruns=1)
def trim_silence(signal, level):
    """From the first to the last loud sample."""
    loud = (signal.abs() > level).nonzero()[:, 0]
    start = torch.cat([loud, loud.new_tensor([40])])[0]
    end = torch.cat([loud.new_tensor([-1]), loud])[-1]
    return signal[start : end + 1]


@idiom((ints(9, 12), t(3)), (ints(9, 12), t(12)), (ints(9, 12), t(1)), (ints(9, 12), t(5)))
def ngrams(ids, n):
    """All windows of n symbols."""
    size = n.item()
    return torch.stack([ids[: 12 - size + 1], ids[size - 1 :]])


@idiom(
    (ints(9, 2, 6), t(2, 4)), (ints(9, 2, 6), t(0, 0)), (ints(9, 2, 6), t(6, 6)), (ints(9, 2, 6), t(1, 5)),
)  # fmt: skip
def shift_prompt(ids, prompt):
    """The answer of each row without its prompt, padded on the right."""
    rows = [row[n:] for row, n in zip(ids.unbind(), prompt.tolist(), strict=True)]
    return pad_sequence(rows, batch_first=True, padding_value=-100)


@idiom(
    (r(7, 3), ints(2, 7)), (r(7, 3), t(0, 0, 0, 0, 0, 0, 0)), (r(7, 3), t(1, 1, 1, 1, 1, 1, 1)), (r(7, 3), ints(2, 7))
)
def mean_of_words(x, starts):
    """Word pieces averaged, a word begins where a flag is set."""
    word = starts.cumsum(0)
    count = word[-1].item() + 1
    sums = x.new_zeros(count, 3).index_add_(0, word, x)
    return sums / torch.bincount(word, minlength=count).clamp(min=1)[:, None]
