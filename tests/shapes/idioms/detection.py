"""Filtering of boxes and points."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.shapes.idioms.registry import BRANCH, VALUE, idiom, ints, r, t

SCORES = t(0.9, 0.1, 0.8, 0.4, 0.7)


def boxes(n=5):
    corner = r(n, 2).abs()
    return torch.cat([corner, corner + r(n, 2).abs() + 0.1], 1)


@idiom((boxes(), SCORES), (boxes(), SCORES * 0), (boxes(), SCORES.flip(0) * 0.6), (boxes(), SCORES + 1), traced=True)
def score_threshold(boxes, scores):
    keep = scores > 0.5
    return boxes[keep], scores[keep], keep.nonzero(as_tuple=True)[0]


@idiom((boxes(), SCORES), (boxes(), SCORES * 0), (boxes(), SCORES * 0.6), (boxes(), SCORES + 1))
def filter_then_top(boxes, scores):
    """The best of what passed, at most three."""
    keep = torch.where(scores > 0.5)[0]
    scores, boxes = scores[keep], boxes[keep]
    count = min(3, scores.numel())
    best, order = scores.topk(count)
    return boxes[order], best


@idiom(
    (boxes(), SCORES),
    (boxes(), SCORES.flip(0)),
    (boxes() * 10, SCORES),
    (torch.ones(5, 4).cumsum(1), SCORES),
    breaks=BRANCH,
)
def greedy_nms(boxes, scores):
    """Non-maximum suppression with a loop over what is left."""
    order = scores.argsort(descending=True)
    kept = []
    while order.numel() > 0:
        first = order[0]
        kept.append(first)
        if order.numel() == 1:
            break
        low = torch.maximum(boxes[first, :2], boxes[order[1:], :2])
        high = torch.minimum(boxes[first, 2:], boxes[order[1:], 2:])
        inter = (high - low).clamp(min=0).prod(1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        overlap = inter / (area[first] + area[order[1:]] - inter)
        order = order[1:][overlap <= 0.3]
    return torch.stack(kept)


@idiom(
    (boxes(), SCORES),
    (boxes(), SCORES.flip(0)),
    (boxes() * 10, SCORES),
    (torch.ones(5, 4).cumsum(1), SCORES),
    traced=True,
)
def matrix_nms(boxes, scores):
    """Suppression without a loop: a box goes if a better one overlaps it."""
    order = scores.argsort(descending=True)
    b = boxes[order]
    low = torch.maximum(b[:, None, :2], b[None, :, :2])
    high = torch.minimum(b[:, None, 2:], b[None, :, 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    area = (b[:, 2:] - b[:, :2]).prod(-1)
    overlap = (inter / (area[:, None] + area[None] - inter)).triu(1)
    keep = overlap.max(0).values < 0.3
    return order[keep], b[keep]


@idiom(
    (r(6, 3), t(0, 1, 0, 2, 1, 0)),
    (r(6, 3), t(0, 0, 0, 0, 0, 0)),
    (r(6, 3), t(2, 1, 0, 2, 1, 0)),
    (r(6, 3), t(1, 1, 2, 2, 2, 2)),
)
def per_class(boxes, labels):
    """The boxes of each class, with offsets so that classes do not meet."""
    out = []
    for label in range(3):
        index = torch.nonzero(labels == label).flatten()
        out.append(boxes[index] + label * 10)
    return torch.cat(out)


@idiom((r(4, 3), r(4)), (r(4, 3), -r(4).abs()), (r(4, 3), r(4).abs()), (r(4, 3), t(-1.0, 1.0, -1.0, -1.0)), traced=True)
def anchors_and_targets(logits, overlap):
    """Losses over the positive anchors only, divided by their number."""
    positive = overlap > 0
    count = positive.sum().clamp(min=1)
    loss = F.smooth_l1_loss(logits[positive], torch.ones_like(logits[positive]), reduction="sum")
    return loss / count


@idiom((r(5, 3), t(1.0)), (r(5, 3), t(-9.0)), (r(5, 3), t(9.0)), (r(5, 3), t(0.2)), traced=True)
def crop_points(points, limit):
    """A point cloud within a range, and its centre."""
    inside = (points.abs() < limit).all(dim=1)
    cloud = points[inside]
    return cloud, cloud.sum(0) / (cloud.shape[0] + 1), cloud.shape[0]


@idiom(
    (r(1, 6, 6), t(1, 1, 4, 5)), (r(1, 6, 6), t(0, 0, 6, 6)), (r(1, 6, 6), t(2, 3, 3, 4)), (r(1, 6, 6), t(0, 2, 2, 6))
)
def crop_box(image, box):
    """A region given by a tensor, resized to a fixed size."""
    top, left, bottom, right = box.tolist()
    region = image[:, top:bottom, left:right]
    return F.adaptive_avg_pool2d(region, 2), region.shape[-1] * region.shape[-2]


@idiom((r(3, 8), t(0.0)), (r(3, 8), t(9.0)), (r(3, 8), t(-9.0)), (r(3, 8), t(1.5)), traced=True)
def peaks(signal, threshold):
    """Local maxima above a threshold, as coordinates and values."""
    middle = signal[:, 1:-1]
    is_peak = (middle > signal[:, :-2]) & (middle > signal[:, 2:]) & (middle > threshold)
    where = torch.argwhere(is_peak)
    return where + torch.tensor([0, 1]), torch.masked_select(middle, is_peak)


@idiom(
    (ints(4, 5, 5),),
    (torch.zeros(5, 5, dtype=torch.long),),
    (ints(2, 5, 5),),
    (torch.arange(25).view(5, 5),),
    breaks=VALUE,
)
def region_sizes(labels):
    """Area and centre of every label that occurs."""
    out = {}
    for label in labels.unique().tolist():
        ys, xs = torch.where(labels == label)
        out[label] = (len(ys), ys.float().mean(), xs.float().mean())
    return out
