"""What is selected twice by one mask, cut out of pictures, and compared with as many rows as the data has."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.idioms.registry import idiom, ints, r, t


@idiom(
    (r(6, 3), r(6, 3), r(6) > 0),
    (r(4, 3), r(4, 3), r(4) > 9),
    (r(9, 3), r(9, 3), r(9) > -9),
    (r(5, 3), r(5, 3), r(5) > 0.5),
    traced=True,
)
def masked_pairs(pred, target, mask):
    """Losses of what one mask selects, for batches of any size."""
    return F.mse_loss(pred[mask], target[mask]), F.cosine_similarity(pred[mask], target[mask])


@idiom(
    (r(6, 5), t(1, -100, 2, 0, -100, 4)),
    (r(4, 5), t(-100, -100, -100, -100)),
    (r(9, 5), ints(5, 9)),
    (r(2, 5), t(3, -100)),
)
def tokens_that_count(logits, labels):
    """The comparison is written twice."""
    picked, rows = labels[labels != -100], logits[labels != -100]
    return F.binary_cross_entropy_with_logits(rows, F.one_hot(picked, 5).float(), reduction="sum"), rows.shape[0]


@idiom((r(4, 6), t(2, 0, 1, 3)), (r(4, 6), t(0, 0, 0, 0)), (r(2, 6), t(0, 0)), (r(5, 6), t(1, 1, 2, 2, 0)), traced=True)
def prototypes(x, labels):
    """Distances to the mean of each class; torch asks how many there are."""
    classes, inverse = labels.unique(return_inverse=True)
    sums = x.new_zeros(len(classes), 6).index_add_(0, inverse, x)
    means = sums / torch.bincount(inverse, minlength=len(classes))[:, None]
    return F.cross_entropy(-torch.cdist(x, means), inverse)


@idiom(
    (r(1, 3, 8, 8), t(1, 2, 6, 7)),
    (r(1, 3, 8, 8), t(0, 0, 8, 8)),
    (r(1, 3, 8, 8), t(2, 2, 4, 4)),
    (r(1, 3, 8, 8), t(0, 3, 8, 5)),
    traced=True,
)
class CroppedConvolution(nn.Module):
    """The ends of the region are read before its start."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, image, box):
        bottom, right = box[3].item(), box[2].item()
        top, left = box[1].item(), box[0].item()
        return self.convolution(image[:, :, top:bottom, left:right]).mean((2, 3))


@idiom((r(3, 3), t(3)), (r(3, 3), t(0)), (r(3, 3), t(1)), (r(3, 3), t(5)), traced=True)
def ints_as_numbers(x, n):
    """An int from data as exponent, bound, filling and element."""
    n = n.item()
    y = x.clone()
    y[0] = n
    return x**n, x.clamp(-n, n), x.masked_fill(x > 0, n), F.pad(x, (1, 1), value=n), y
