"""Vision: convolutional networks, detectors, transformers on patches."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

from tests.corpus.registry import built, case, ints, r


@case((r(2, 8),), (r(3, 8),), backward=True)
class Generator(nn.Module):
    """DCGAN's generator, with initialisation by class name."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(8, 8, 4, 1, 0, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )
        self.apply(self.weights_init)

    @staticmethod
    def weights_init(m: nn.Module) -> None:
        classname = m.__class__.__name__
        if classname.find("Conv") != -1:
            m.weight.data.normal_(0.0, 0.02)
        elif classname.find("BatchNorm") != -1:
            m.weight.data.normal_(1.0, 0.02)
            m.bias.data.fill_(0)

    def forward(self, z: Any) -> Any:
        if z.dim() == 2:
            z = z[..., None, None]
        return self.main(z)


@case((r(2, 3, 8, 8),), (r(1, 3, 8, 8),), backward=True)
class Discriminator(nn.Module):
    """Spectral norm in both forms; the old one updates its vectors in a pre-hook."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                spectral_norm(nn.Conv2d(3, 4, 3, 2, 1)),
                parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, 2, 1)),
            ]
        )
        self.head = weight_norm(nn.Linear(16, 1))

    def forward(self, x: Any) -> Any:
        features = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.2, inplace=True)
            features.append(x)
        return self.head(x.view(x.size(0), -1)).squeeze(1), features


class DoubleConv(nn.Module):
    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
        )

    def forward(self, x: Any) -> Any:
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, cin: int, cout: int, bilinear: bool = True) -> None:
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        else:
            self.up = nn.ConvTranspose2d(cin // 2, cin // 2, 2, stride=2)
        self.conv = DoubleConv(cin, cout)

    def forward(self, x1: Any, x2: Any) -> Any:
        x1 = self.up(x1)
        diff_y = x2.size()[2] - x1.size()[2]
        diff_x = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


@case((r(1, 1, 9, 9),), (r(2, 1, 12, 10),), train=False)
class UNet(nn.Module):
    """Pads for odd sizes; deep supervision."""

    def __init__(self) -> None:
        super().__init__()
        self.inc = DoubleConv(1, 4)
        self.downs = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2), DoubleConv(4 * 2**i, 8 * 2**i)) for i in range(2)])
        self.ups = nn.ModuleList([Up(24, 8), Up(12, 4)])
        self.outs = nn.ModuleList([nn.Conv2d(c, 2, 1) for c in (8, 4)])

    def forward(self, x: Any) -> Any:
        size = x.shape[-2:]
        skips = [self.inc(x)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        outputs = []
        for up, out in zip(self.ups, self.outs):
            x = up(x, skips.pop())
            outputs.append(F.interpolate(out(x), size=size, mode="nearest"))
        return tuple(reversed(outputs))


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(self, planes: int, stride: int = 1, downsample: nn.Module | None = None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        identity = x
        out = self.bn1(self.conv1(x))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


@case((r(2, 3, 8, 8),), (r(4, 3, 8, 8),), (r(2, 3, 8, 8), True), backward=True, backend="aot_eager", tolerance=1e-5)
class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        for i in range(2):
            setattr(self, f"layer{i + 1}", self._make_layer(i + 1))
        self.fc = nn.Linear(8, 5)

    def _make_layer(self, stride: int) -> nn.Sequential:
        down = nn.Sequential(nn.Conv2d(8, 8, 1, stride, bias=False), nn.BatchNorm2d(8)) if stride > 1 else None
        return nn.Sequential(BasicBlock(8, stride, down), BasicBlock(8))

    def forward(self, x: Any, return_features: bool = False) -> Any:
        feats = {}
        x = self.stem(x)
        for name in ["layer1", "layer2"]:
            x = getattr(self, name)(x)
            feats[name] = x
        x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
        out = self.fc(x)
        return (out, feats) if return_features else out


@case((r(2, 4, 4, 4),), (r(3, 4, 4, 4),))
class DenseBlock(nn.ModuleDict):
    """A container that is the model; features are concatenated lists."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(3):
            self.add_module(f"denselayer{i + 1}", nn.Conv2d(4 + 2 * i, 2, 1))

    def forward(self, init: Any) -> Any:
        features = [init]
        for _name, layer in self.items():
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


@case((r(6, 4).abs().cumsum(1), r(6).sigmoid()), (r(9, 4).abs().cumsum(1), r(9).sigmoid()), (r(0, 4), r(0)))
def nms(boxes: Any, scores: Any, iou_threshold: float = 0.3) -> Any:
    """Python loop on data: the classic."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    areas = (x2 - x1) * (y2 - y1)
    _, order = scores.sort(0, descending=True)
    keep = []
    while order.numel() > 0:
        if order.numel() == 1:
            keep.append(order.item())
            break
        i = order[0].item()
        keep.append(i)
        xx1 = x1[order[1:]].clamp(min=x1[i])
        yy1 = y1[order[1:]].clamp(min=y1[i])
        xx2 = x2[order[1:]].clamp(max=x2[i])
        yy2 = y2[order[1:]].clamp(max=y2[i])
        inter = (xx2 - xx1).clamp(min=0) * (yy2 - yy1).clamp(min=0)
        iou = inter / (areas[i] + areas[order[1:]] - inter)
        idx = (iou <= iou_threshold).nonzero().squeeze()
        if idx.numel() == 0:
            break
        order = order[idx + 1].view(-1)
    return torch.LongTensor(keep)


@case((r(1, 18, 4, 4), 8), (r(2, 18, 2, 2), 8))
class YoloLayer(nn.Module):
    """Grids that are made again when the size changes; results collected per image."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0)]
        self.grid_size = 0
        self.conf_thres = 0.6

    def compute_grid_offsets(self, grid_size: int, device: Any) -> None:
        self.grid_size = g = grid_size
        self.stride = self.img_dim / self.grid_size
        self.grid_x = torch.arange(g, device=device).repeat(g, 1).view([1, 1, g, g]).float()
        self.grid_y = torch.arange(g).repeat(g, 1).t().view([1, 1, g, g]).float()
        self.scaled_anchors = torch.tensor([(a / self.stride, b / self.stride) for a, b in self.anchors])
        self.anchor_w = self.scaled_anchors[:, 0:1].view((1, 3, 1, 1))

    def forward(self, x: Any, img_dim: int) -> Any:
        self.img_dim = img_dim
        n, grid = x.size(0), x.size(2)
        pred = x.view(n, 3, 6, grid, grid).permute(0, 1, 3, 4, 2).contiguous()
        conf = torch.sigmoid(pred[..., 4])
        if grid != self.grid_size:
            self.compute_grid_offsets(grid, x.device)
        boxes = torch.zeros_like(pred[..., :4])
        boxes[..., 0] = torch.sigmoid(pred[..., 0]).data + self.grid_x
        boxes[..., 1] = torch.sigmoid(pred[..., 1]).data + self.grid_y
        boxes[..., 2] = torch.exp(pred[..., 2].data) * self.anchor_w
        output: list[Any] = [None] * n
        for i in range(n):
            mask = conf[i] > self.conf_thres
            if not mask.any():
                continue
            output[i] = boxes[i][mask] * self.stride
        return output, boxes


@case((r(2, 3, 8, 8),), (r(1, 3, 8, 8),), (r(2, 3, 10, 8),), train=False)
class ViT(nn.Module):
    """Asserts on sizes with messages; a class token; the third call raises."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, 8))
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        b, _c, h, w = x.shape
        assert h == 8 and w == 8, f"Input image size ({h}*{w}) doesn't match model (8*8)."
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(b, -1, -1), x), dim=1) + self.pos_embed
        return self.norm(self.blocks(x))[:, 0]


@case((r(1, 4, 6, 6),), (r(2, 4, 8, 8),))
class SwinBlock(nn.Module):
    """Window partition, relative position bias, a mask cached by resolution."""

    def __init__(self, window: int = 2, shift: int = 1) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.qkv = nn.Linear(4, 12)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, 2))
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += window - 1
        rel[:, :, 1] += window - 1
        rel[:, :, 0] *= 2 * window - 1
        self.register_buffer("index", rel.sum(-1))
        self.cache: dict[tuple[int, int], Any] = {}

    def mask(self, h: int, w: int) -> Any:
        if (h, w) in self.cache:
            return self.cache[h, w]
        img = torch.zeros((1, h, w, 1))
        cnt = 0
        for hs in (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None)):
            for ws in (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None)):
                img[:, hs, ws, :] = cnt
                cnt += 1
        windows = self.partition(img).view(-1, self.window * self.window)
        mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        self.cache[h, w] = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        return self.cache[h, w]

    def partition(self, x: Any) -> Any:
        b, h, w, c = x.shape
        x = x.view(b, h // self.window, self.window, w // self.window, self.window, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.window * self.window, c)

    def forward(self, x: Any) -> Any:
        b, c, h, w = x.shape
        x = torch.roll(x.permute(0, 2, 3, 1), shifts=(-self.shift, -self.shift), dims=(1, 2))
        win = self.partition(x)
        n = win.shape[1]
        qkv = self.qkv(win).reshape(-1, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (c // 2) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        mask = self.mask(h, w)
        nw = mask.shape[0]
        attn = attn.view(b, nw, 2, n, n) + mask.unsqueeze(1).unsqueeze(0)
        return (attn.view(-1, 2, n, n).softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c)


@case((r(2, 8, 3),), (r(3, 8, 3),), backward=True)
class Capsules(nn.Module):
    """Dynamic routing; detached in all but the last iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(0.1 * torch.randn(1, 4, 8, 5, 3))

    @staticmethod
    def squash(x: Any, dim: int = -1) -> Any:
        norm = torch.norm(x, dim=dim, keepdim=True)
        return norm**2 / (1 + norm**2) / (norm + 1e-8) * x

    def forward(self, x: Any) -> Any:
        hat = torch.squeeze(torch.matmul(self.W, x[:, None, :, :, None]), dim=-1)
        hat_detached = hat.detach()
        b = torch.autograd.Variable(torch.zeros(x.size(0), 4, 8))
        for i in range(3):
            c = F.softmax(b, dim=1)
            if i == 2:
                return torch.squeeze(self.squash(torch.sum(c[:, :, :, None] * hat, dim=-2, keepdim=True)), dim=-2)
            out = self.squash(torch.sum(c[:, :, :, None] * hat_detached, dim=-2, keepdim=True))
            b = b + torch.sum(out * hat_detached, dim=-1)
        return None


@built((r(1, 3, 8, 8),), (r(2, 3, 8, 8),))
def feature_pyramid() -> nn.Module:
    """A body cut by names, as in torchvision's IntermediateLayerGetter."""

    class Body(nn.ModuleDict):
        def __init__(self, layers: dict[str, nn.Module], return_layers: dict[str, str]) -> None:
            super().__init__(layers)
            self.return_layers = return_layers

        def forward(self, x: Any) -> Any:
            out = OrderedDict()
            for name, module in self.items():
                x = module(x)
                if name in self.return_layers:
                    out[self.return_layers[name]] = x
            return out

    class FPN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = OrderedDict((f"c{i}", nn.Conv2d(3 if i == 0 else 4, 4, 3, 2, 1)) for i in range(3))
            self.body = Body(layers, {"c1": "0", "c2": "pool"})
            self.inner = nn.ModuleList([nn.Conv2d(4, 2, 1) for _ in range(2)])

        def forward(self, x: Any) -> Any:
            features = self.body(x)
            names, values = list(features.keys()), list(features.values())
            last = self.inner[-1](values[-1])
            results = [last]
            for idx in range(len(values) - 2, -1, -1):
                lateral = self.inner[idx](values[idx])
                last = lateral + F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
                results.insert(0, last)
            return OrderedDict([(k, v) for k, v in zip(names, results)])

    return FPN()


@case((r(2, 3, 6, 6), [ints(3, 2), ints(3, 1)]), (r(2, 3, 6, 6), [ints(3, 1), ints(3, 3)]))
class DetectionLoss(nn.Module):
    """Targets of other lengths per image; asserts and raises on values."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.losses: dict[str, Any] = {}

    def forward(self, images: Any, targets: list[Any]) -> Any:
        for target in targets:
            if target.min() < 0 or target.max() >= 3:
                raise ValueError(f"label out of range: {target.tolist()}")
        logits = self.head(images.mean((2, 3)))
        losses = []
        for logit, target in zip(logits, targets):
            losses.append(F.cross_entropy(logit.expand(len(target), -1), target))
        self.losses = {"cls": torch.stack(losses).mean(), "n": sum(len(t) for t in targets)}
        loss = sum(v for k, v in self.losses.items() if k != "n")
        if not math.isfinite(loss.item()):
            raise FloatingPointError(loss)
        return loss, {k: float(v.detach() if torch.is_tensor(v) else v) for k, v in self.losses.items()}


@case((r(2, 4, 5, 5),), (r(3, 4, 5, 5),), train=False)
class SqueezeExcite(nn.Module):
    """Properties, weights by name, in-place activation on a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    @property
    def device(self) -> Any:
        return next(self.parameters()).device

    @property
    def n_params(self) -> int:
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def forward(self, x: Any) -> Any:
        x = x.to(self.device).clone()
        scale = F.hardsigmoid(self.fc2(F.silu(self.fc1(x.mean((2, 3), keepdim=True)), inplace=True)))
        x[:, ::2].mul_(2).relu_()
        return x * scale, self.n_params


@case((r(1, 2, 6, 6),), (r(2, 2, 6, 6),), backward=True)
class DeformableSampler(nn.Module):
    """grid_sample and affine_grid with an identity built from lists; a mask written by index."""

    def __init__(self) -> None:
        super().__init__()
        self.loc = nn.Linear(2 * 36, 6)
        self.loc.weight.data.zero_()
        self.loc.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def forward(self, x: Any) -> Any:
        theta = self.loc(x.reshape(x.shape[0], -1)).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.size()), align_corners=False)
        y = F.grid_sample(x, grid, align_corners=False)
        mask = torch.ones_like(y)
        for i in range(0, 6, 2):
            mask[:, :, i, i] = 0
        return y * mask
