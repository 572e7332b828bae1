"""Images of changing number and size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.sweeps.registry import sized, sweep

EVEN = (8, 12, 16, 20, 24, 28, 10, 14, 18, 22)
ODD = (9, 13, 15, 11, 17, 21, 25, 19, 23, 27)


@sweep(sized(lambda b, s: torch.randn(b, 3, s, s + 2), second=EVEN))
class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = x + F.interpolate(F.relu(self.down(x)), size=x.shape[-2:], mode="nearest")
        x = F.max_pool2d(x, 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


@sweep(sized(lambda b, s: torch.randn(b, 3, s, s), second=ODD), quick=False)
class UNet(nn.Module):
    """Skips are padded or cropped to fit, as sizes are odd."""

    def __init__(self):
        super().__init__()
        self.down1 = self.block(3, 4)
        self.down2 = self.block(4, 8)
        self.middle = self.block(8, 8)
        self.up2 = self.block(16, 4)
        self.up1 = self.block(8, 4)
        self.out = nn.Conv2d(4, 1, 1)

    def block(self, a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.SiLU())

    def merge(self, x, skip):
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return torch.cat([skip, x], dim=1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        x = self.middle(F.max_pool2d(two, 2))
        x = self.up2(self.merge(x, two))
        return self.out(self.up1(self.merge(x, one)))


@sweep(sized(lambda b, s: torch.randn(b, 3, 4 * s, 4 * s + 4), second=(4, 5, 6, 7, 8, 9, 10, 3, 11, 12)), quick=False)
class ViT(nn.Module):
    """Position embeddings of a 4 x 4 grid are interpolated to the grid at hand."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, stride=4)
        self.cls = nn.Parameter(torch.randn(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 17, 16))
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.proj = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def positions(self, h, w):
        if (h, w) == (4, 4):
            return self.pos
        cls, grid = self.pos[:, :1], self.pos[:, 1:]
        grid = grid.reshape(1, 4, 4, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(h, w), mode="bicubic", align_corners=False)
        return torch.cat([cls, grid.permute(0, 2, 3, 1).reshape(1, h * w, -1)], dim=1)

    def attention(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * (c // 4) ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))

    def forward(self, x):
        x = self.patch(x)
        h, w = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.positions(h, w)
        x = x + self.attention(self.norm(x))
        x = x + self.mlp(self.norm(x))
        return self.norm(x)[:, 0]


@sweep(sized(lambda b, s: torch.randn(b, 8, s, s), second=(8, 12, 16, 20, 24, 28, 32, 36, 40, 44)), quick=False)
class WindowAttention(nn.Module):
    """Shifted windows of 4 x 4, as in Swin."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        b, c, h, w = x.shape
        x = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
        x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = F.scaled_dot_product_attention(q, k, v)
        x = x.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, (2, 2), (1, 2)).permute(0, 3, 1, 2)


@sweep(sized(lambda b, s: torch.randn(b, 4, s, s), second=EVEN), quick=False)
class Pyramid(nn.Module):
    """Features of several scales, pooled to one size, with anchors made per location."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, stride=2, padding=1) for _ in range(2))
        self.score = nn.Conv2d(4, 2, 1)

    def anchors(self, feature, stride):
        h, w = feature.shape[-2:]
        ys = (torch.arange(h, device=feature.device) + 0.5) * stride
        xs = (torch.arange(w, device=feature.device) + 0.5) * stride
        return torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1).reshape(-1, 2)

    def forward(self, x):
        features = [x]
        for conv in self.convs:
            features.append(F.relu(conv(features[-1])))
        top = features[-1]
        for i in range(len(features) - 2, -1, -1):
            top = features[i] + F.interpolate(top, size=features[i].shape[-2:], mode="nearest")
            features[i] = top
        scores = [self.score(f).permute(0, 2, 3, 1).reshape(f.shape[0], -1, 2) for f in features]
        anchors = [self.anchors(f, x.shape[-1] // f.shape[-1]) for f in features]
        return torch.cat(scores, 1).sigmoid(), torch.cat(anchors)


@sweep(sized(lambda b, s: (torch.randn(b, 3, s, s), torch.rand(b, 5, 2) * 2 - 1), second=EVEN), quick=False)
def spatial_features(image, points):
    """Sampling at points, unfolding of patches, colour statistics per image."""
    b, c, h, w = image.shape
    sampled = F.grid_sample(image, points[:, :, None], align_corners=False).squeeze(-1)
    patches = F.unfold(image, 3, padding=1, stride=2)
    mean = image.mean((2, 3), keepdim=True)
    std = (image.var((2, 3), keepdim=True, unbiased=False) + 1e-5).sqrt()
    normal = (image - mean) / std
    halves = normal.view(b, c, h // 2, 2, w // 2, 2).mean((3, 5))
    return sampled, patches.mean(1), F.pixel_unshuffle(halves.repeat_interleave(2, 2).repeat_interleave(2, 3), 2)
