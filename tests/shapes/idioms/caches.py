"""Caches of keys: windows, sinks, flat slots, quantised, a place for each row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.shapes.idioms.registry import idiom, r, t

STEPS = [(r(2, 2, 3, 4), t(0)), (r(2, 2, 1, 4), t(3)), (r(2, 2, 1, 4), t(4)), (r(2, 2, 1, 4), t(5))]


class Cache(nn.Module):
    """A buffer of eight places."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 2, 8, 4))

    def put(self, x: Tensor, start: Tensor) -> Tensor:
        self.k[:, :, start : start + x.size(2)] = x
        return start + x.size(2)


@idiom(*STEPS)
class SlidingWindow(Cache):
    """The last four, by a bound that a tensor holds and that is read after the end."""

    def forward(self, x, start):
        end = self.put(x, start)
        window = self.k[:, :, torch.clamp(end - 4, min=0) : end]
        return F.scaled_dot_product_attention(x, window, window)


@idiom(*STEPS)
class Sinks(Cache):
    """The first two and the last three."""

    def forward(self, x, start):
        end = self.put(x, start).item()
        kept = torch.cat([self.k[:, :, :2], self.k[:, :, max(2, end - 3) : end]], 2)
        return F.scaled_dot_product_attention(x, kept, kept)


@idiom(*((x, t(int(start), int(start) // 2)) for x, start in [*STEPS, (r(2, 2, 2, 4), t(6))]))
class PlaceForEachRow(Cache):
    """A loop over the batch; the longest row says how much is read."""

    def forward(self, x, starts):
        n = x.size(2)
        for row in range(x.size(0)):
            self.k[row, :, starts[row] : starts[row] + n] = x[row]
        end = (starts.max() + n).item()
        mask = torch.arange(end)[None, None, None] < (starts[:, None, None, None] + n)
        return F.scaled_dot_product_attention(x, self.k[:, :, :end], self.k[:, :, :end], attn_mask=mask)


@idiom(*STEPS)
class Quantised(nn.Module):
    """Bytes and a scale for each place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bytes", torch.zeros(2, 2, 8, 4, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(2, 2, 8, 1))

    def forward(self, x, start):
        end = start + x.size(2)
        scale = x.abs().amax(-1, keepdim=True) / 127
        self.bytes[:, :, start:end] = (x / scale).round().to(torch.int8)
        self.scale[:, :, start:end] = scale
        k = self.bytes[:, :, :end].float() * self.scale[:, :, :end]
        return F.scaled_dot_product_attention(x, k, k)
