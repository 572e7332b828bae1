"""Ragged batches: masks, packing, padding, lengths."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from tests.shapes.idioms.registry import flags, idiom, ints, r, t

LENGTHS = (t(3, 1, 5), t(5, 5, 5), t(1, 1, 1), t(2, 4, 3))
BATCHES = tuple((r(3, 5, 4), lengths) for lengths in LENGTHS)
NONE = torch.zeros(3, 5, dtype=torch.bool)


@idiom((r(3, 5, 4), r(3, 5) > 0), (r(3, 5, 4), NONE), (r(3, 5, 4), ~NONE), (r(3, 5, 4), r(3, 5) > 1), traced=True)
def flatten_valid(x, mask):
    """Only valid tokens are computed on, then they are scattered back."""
    tokens = x[mask]
    y = torch.relu(tokens @ torch.ones(4, 4))
    out = torch.zeros_like(x)
    out[mask] = y
    return out, tokens.shape[0]


@idiom(*BATCHES)
def trim_to_longest(x, lengths):
    """A batch padded to a fixed size is cut to the longest sequence in it."""
    longest = lengths.max().item()
    x = x[:, :longest]
    mask = torch.arange(longest)[None] < lengths[:, None]
    return x * mask[..., None], mask.float().sum(1)


@idiom(*BATCHES)
def mask_of_lengths(x, lengths):
    """`sequence_mask` as toolkits write it."""
    size = int(lengths.max())
    mask = torch.arange(size).expand(len(lengths), size) < lengths.unsqueeze(1)
    pooled = (x[:, :size] * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1)
    return mask, pooled


@idiom((r(9, 2), t(3, 1, 5)), (r(9, 2), t(3, 3, 3)), (r(9, 2), t(9, 0, 0)), (r(9, 2), t(1, 1, 7)))
def split_by_lengths(tokens, lengths):
    """Packed tokens are split into sequences, each reduced, and stacked."""
    parts = torch.split(tokens, lengths.tolist())
    return torch.stack([part.sum(0) for part in parts])


@idiom((r(9, 2), t(3, 1, 5)), (r(9, 2), t(3, 3, 3)), (r(9, 2), t(7, 1, 1)), (r(9, 2), t(1, 1, 7)))
def pad_packed(tokens, lengths):
    """Packed to padded, by `pad_sequence`."""
    return pad_sequence(torch.split(tokens, lengths.tolist()), batch_first=True)


@idiom((r(9, 2), t(0, 3, 4, 9)), (r(9, 2), t(0, 0, 9, 9)), (r(9, 2), t(0, 1, 2, 9)), (r(9, 2), t(0, 5, 7, 9)))
def ragged_attention(x, offsets):
    """Attention within each sequence of a packed batch, by offsets."""
    outs = []
    for i in range(3):
        start, end = offsets[i].item(), offsets[i + 1].item()
        part = x[start:end]
        outs.append(torch.softmax(part @ part.T, -1) @ part)
    return torch.cat(outs)


@idiom(
    (r(9, 2), t(0, 3, 4, 9)), (r(9, 2), t(0, 0, 9, 9)), (r(9, 2), t(0, 1, 2, 9)), (r(9, 2), t(0, 5, 7, 9)), traced=True
)
def document_mask(x, offsets):
    """The same by a mask of documents, made by `repeat_interleave`."""
    lengths = offsets.diff()
    document = torch.repeat_interleave(torch.arange(3), lengths)
    mask = document[:, None] == document[None]
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


@idiom((r(3, 4), t(2, 0, 1)), (r(3, 4), t(0, 0, 0)), (r(3, 4), t(1, 0, 0)), (r(3, 4), t(3, 3, 3)), traced=True)
def length_regulator(x, durations):
    """FastSpeech: every phone is repeated as often as predicted."""
    out = torch.repeat_interleave(x, durations, dim=0)
    return out, out.cumsum(0), torch.arange(out.shape[0])


@idiom(
    (ints(5, 2, 6),),
    (torch.zeros(2, 6, dtype=torch.long),),
    (torch.ones(2, 6, dtype=torch.long),),
    (ints(2, 2, 6),),
    traced=True,
)
def unpad_inputs(ids):
    """What variable-length attention wants: indices, cumulated lengths and the longest one."""
    mask = ids != 0
    lengths = mask.sum(-1, dtype=torch.int32)
    indices = torch.nonzero(mask.flatten(), as_tuple=False).flatten()
    cumulated = F.pad(torch.cumsum(lengths, 0, dtype=torch.int32), (1, 0))
    return indices, cumulated, lengths.max(), ids.flatten()[indices]


@idiom(*BATCHES, breaks=("data-dependent-shape",))
class PackedRnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, hidden = self.rnn(packed)
        return pad_packed_sequence(out, batch_first=True)[0], hidden


@idiom((ints(9, 2, 6), t(3)), (ints(9, 2, 6), t(0)), (ints(9, 2, 6), t(6)), (ints(9, 2, 6), t(1)))
def left_pad(ids, width):
    """Padding by as much as a tensor says."""
    width = width.item()
    return F.pad(ids, (width, 0), value=-1), ids.shape[1] + width


@idiom(
    (ints(4, 3, 6),), (torch.full((3, 6), 2),), (torch.zeros(3, 6, dtype=torch.long),), (ints(3, 3, 6),), traced=True
)
def until_end_token(ids):
    """Everything after the first end token is masked, losses are averaged over the rest."""
    ended = (ids == 2).cumsum(1)
    valid = ended <= 1
    picked = ids[valid]
    return ids.masked_fill(~valid, 0), picked.float().mean(), picked.numel()


@idiom(
    (r(4, 3), flags(1, 0, 1, 0)),
    (r(4, 3), flags(0, 0, 0, 0)),
    (r(4, 3), flags(0, 0, 1, 0)),
    (r(4, 3), flags(1, 1, 1, 1)),
    traced=True,
)
def masked_loss(logits, mask):
    """Loss over labelled rows, by `masked_select`."""
    rows = torch.masked_select(logits, mask.unsqueeze(1)).view(-1, logits.shape[1])
    return F.log_softmax(rows, -1).sum(), rows.size(0)


@idiom((ints(9, 8), t(2, 3)), (ints(9, 8), t(8, 1)), (ints(9, 8), t(1, 8)), (ints(9, 8), t(4, 2)))
def view_by_data(x, shape):
    """A shape that came along as a tensor, as in patch grids of images of any size."""
    h, w = shape.tolist()
    return x[: h * w].reshape(h, w).sum(1), h * w
