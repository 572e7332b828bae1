"""Pictures and points: boxes, crops, grids, filters."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.shapes.idioms.registry import idiom, ints, r, t

IMAGE = r(2, 8, 8)
BOXES = [(IMAGE, t(1, 2, 5, 6)), (IMAGE, t(0, 0, 8, 8)), (IMAGE, t(3, 3, 4, 4)), (IMAGE, t(2, 0, 7, 3))]


@idiom(*BOXES)
def crop_and_resize(image, box):
    x0, y0, x1, y1 = box.unbind()
    return F.interpolate(image[None, :, y0:y1, x0:x1], size=(4, 4), mode="nearest")


@idiom(*BOXES)
def paste(image, box):
    x0, y0, x1, y1 = box.tolist()
    out = torch.zeros_like(image)
    out[:, y0:y1, x0:x1] = image[:, y0:y1, x0:x1]
    return out


@idiom(*BOXES)
def box_scale(image, box):
    """A scale by the diagonal of the box."""
    x0, y0, x1, y1 = box.tolist()
    return image * math.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)


@idiom((r(9, 3), t(1.0)), (r(9, 3) * 0, t(1.0)), (r(9, 3) * 9, t(1.0)), (r(9, 3), t(0.5)), (r(1, 3), t(0.5)))
def voxels(points, size):
    """The mean of the points in each voxel."""
    cells = torch.floor(points / size).long()
    used, inverse, counts = torch.unique(cells, dim=0, return_inverse=True, return_counts=True)
    sums = points.new_zeros(used.shape[0], 3).index_add_(0, inverse, points)
    return used, sums / counts[:, None]


@idiom((r(9, 3), t(4)), (r(9, 3), t(9)), (r(9, 3), t(1)), (r(9, 3), t(6)))
def nearest_neighbours(points, k):
    distance = torch.cdist(points, points)
    near = distance.topk(k.item(), largest=False).indices
    return points[near].mean(1)


@idiom((r(4, 4),), (torch.zeros(4, 4),), (torch.eye(4),), (r(4, 4),))
def bounding_box(mask):
    """The box around what is not zero, empty ones included."""
    ys, xs = torch.where(mask > 0.5)
    count = ys.numel()
    ys, xs = F.pad(ys, (0, 1)), F.pad(xs, (0, 1))
    return torch.stack([xs.amin(), ys.amin(), xs.amax(), ys.amax()]), count


@idiom((r(2, 8, 8), t(2)), (r(2, 8, 8), t(0)), (r(2, 8, 8), t(4)), (r(2, 8, 8), t(7)))
def roll_by_data(image, shift):
    n = shift.item()
    return torch.cat([image[..., n:], image[..., :n]], -1)


@idiom((r(3, 4), ints(4, 3)), (r(3, 4), t(0, 0, 0)), (r(3, 4), t(3, 3, 3)), (r(3, 4), ints(4, 3)))
def mosaic(rows, counts):
    """Sizes of a grid from a count."""
    total = int(counts.sum())
    side = math.ceil(total**0.5)
    return torch.arange(side).float().sum() + rows.sum(), side


@idiom((r(6, 5), t(0.6)), (r(6, 5), t(0.0)), (r(6, 5), t(1.0)), (r(6, 5), t(0.2)))
def quantile_threshold(x, share):
    """The smallest of the largest k numbers as a threshold."""
    k = max(int(share.item() * x.numel()), 1)
    threshold = x.flatten().kthvalue(x.numel() - k + 1).values
    return torch.where(x >= threshold, x, 0)
