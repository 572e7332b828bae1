"""Numerics: numpy inside, Fourier transforms, complex and sparse tensors, einsum, scalars."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import case, ints, r


@case((r(2, 4, 4),), (r(3, 4, 4),), backward=True)
class SpectralConv(nn.Module):
    """Fourier neural operator: complex weights, slices of a spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.rand(4, 4, 2, dtype=torch.cfloat))

    def forward(self, x: Any) -> Any:
        ft = torch.fft.rfft(x)
        out = torch.zeros(x.shape[0], 4, x.size(-1) // 2 + 1, dtype=torch.cfloat)
        out[:, :, :2] = torch.einsum("bix,iox->box", ft[:, :, :2], self.weights)
        return torch.fft.irfft(out, n=x.size(-1))


@case((r(1, 32),), (r(2, 48),), train=False)
class MelSpectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16), persistent=False)
        self.register_buffer("basis", torch.from_numpy(np.random.RandomState(0).rand(5, 9).astype(np.float32)))

    def forward(self, wav: Any) -> Any:
        spec = torch.stft(wav, 16, 8, window=self.window, return_complex=True, center=True)
        mel = torch.matmul(self.basis, spec.abs().pow(2))
        log = torch.log10(torch.clamp(mel, min=1e-5))
        return torch.maximum(log, log.max() - 8.0), torch.view_as_real(spec)[..., 0], spec.angle()


@case((r(3, 4),), (r(2, 4),))
def through_numpy(x: Any) -> Any:
    a = x.detach().cpu().numpy()
    order = np.argsort(-a.sum(axis=1))
    kernel = np.outer(np.hanning(4), np.ones(4)).astype(np.float32)
    b = torch.from_numpy(a[order].copy())
    return b @ torch.from_numpy(kernel), torch.tensor(np.float32(a.mean())), order.tolist(), np.percentile(a, 50)


@case((r(3, 4),), (r(4, 4),))
def numpy_inputs_shared(x: Any) -> Any:
    """numpy views write into the tensor's memory."""
    view = x.numpy()
    view[0] = 7.0
    view *= 2
    return x.sum(), torch.as_tensor(view).mean()


@case((r(4, 3),), (r(6, 3),), (r(9, 3),), (r(5, 3),))
def points_in_numpy(x: Any) -> Any:
    """Clouds of any size, moved and compared in numpy, in a buffer of one size."""
    points = x.numpy()
    centre = points.mean(0)
    turn = np.array([[np.cos(0.3), -np.sin(0.3), 0], [np.sin(0.3), np.cos(0.3), 0], [0, 0, 1]], dtype=np.float32)
    moved = (points - centre) @ turn.T + centre
    nearest = np.linalg.norm(moved[:, None] - moved[None], axis=-1).argsort(axis=1)[:, 1:3]
    buffer = np.zeros((16, points.shape[1]), dtype=np.float32)
    buffer[: len(points)] = moved[::-1]
    return torch.from_numpy(moved)[torch.from_numpy(nearest)].mean(1), torch.from_numpy(buffer).sum(0) / len(points)


@case((r(4, 8),), (r(6, 8),), (r(9, 8),), (r(5, 8),))
def advantages(x: Any) -> Any:
    """Generalised advantages, step by step in an array."""
    values, rewards = x[:, 0].numpy(), np.ones(3, dtype=np.float32)
    made, last = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        made[t] = last = rewards[t] + 0.9 * values[t + 1] - values[t] + 0.855 * last
    made = (made - made.mean()) / (made.std() + 1e-8)
    return torch.from_numpy(made) * x[:3, 1]


@case((r(4, 5), ints(5, 4)), (r(6, 5), ints(5, 6)), (r(9, 5), ints(5, 9)), (r(5, 5), ints(5, 5)), backward=True)
def weighted_classes(logits: Any, labels: Any) -> Any:
    counts = torch.bincount(labels, minlength=5).float()
    weight = np.where(counts.numpy() > 0, 1.0 / np.maximum(counts.numpy(), 1), 0.0)
    return F.cross_entropy(logits, labels, weight=torch.tensor(weight, dtype=torch.float32))


@case((np.arange(6.0).reshape(2, 3),), (np.ones((4, 3)),))
def numpy_arguments(a: Any) -> Any:
    t = torch.from_numpy(a).float()
    a += 1
    return (t * 2).numpy(), np.concatenate([a, t.numpy()]), float(np.linalg.norm(a))


@case((r(4, 4),), (r(3, 3),))
def linear_algebra(x: Any) -> Any:
    spd = x @ x.T + torch.eye(len(x))
    l = torch.linalg.cholesky(spd)
    u, s, vh = torch.linalg.svd(spd)
    w, v = torch.linalg.eigh(spd)
    try:
        torch.linalg.cholesky(-spd)
    except torch.linalg.LinAlgError:
        ok = False
    else:
        ok = True
    return l, s, w, torch.linalg.solve(spd, x), torch.logdet(spd), ok, (u @ torch.diag(s) @ vh - spd).abs().max() < 1e-3


@case((ints(3, 2, 5), r(5, 3)), (ints(3, 2, 4), r(5, 3)))
def sparse(indices: Any, dense: Any) -> Any:
    values = torch.ones(indices.size(1))
    s = torch.sparse_coo_tensor(indices, values, (3, 5), check_invariants=True).coalesce()
    return torch.sparse.mm(s, dense), s.indices(), s.values(), s.to_dense(), s._nnz()


@case((r(2, 3, 4), r(2, 4, 3)), (r(1, 3, 4), r(1, 4, 3)), backward=True)
def einsums(a: Any, b: Any) -> Any:
    c = torch.einsum("bij,bjk->bik", a, b)
    d = torch.einsum("...ii->...i", c)
    e = torch.tensordot(a, b, dims=([0, 2], [0, 1]))
    f = torch.einsum("bij,bjk,bkl->il", a, b, a)
    return c, d, e, f, torch.kron(c[0], torch.eye(2)), torch.cdist(a, a)


@case((torch.tensor([1.0, -2.0, 3.0]), 2), (torch.tensor([4.0, 5.0]), 3))
def scalars(x: Any, n: int) -> Any:
    """Tensor values as Python numbers, in all the usual ways."""
    total = float(x.sum())
    k = int(x.abs().max().item()) % n
    values = [round(v, 2) for v in x.tolist()]
    size = math.prod(x.shape) * n
    t = torch.tensor([total, k, *values])
    grid = torch.linspace(0, total, steps=k + 2)
    weights = torch.ones(k + 1, size)
    if total > 1 and x[0] > 0:
        weights = weights * total
    return t, grid, weights, f"{total:.1f}", x[k % len(x)] if len(x) else None, bool(x.any()), x.argmax().item()


@case((r(4, 4),), (r(5, 5),))
def power_iteration(m: Any) -> Any:
    m = m @ m.T
    v, last = torch.ones(m.shape[0], 1), torch.tensor(float("inf"))
    for step in range(50):
        v = m @ v
        v = v / v.norm()
        value = (v.T @ m @ v).squeeze()
        if torch.abs(value - last) < 1e-3:
            break
        last = value
    return value, step


@case((r(3, 4),), (r(2, 4),))
def dtypes(x: Any) -> Any:
    half = x.half().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        with torch.autocast("cpu", enabled=False):
            z = x.double() @ x.double().T
    q = (x * 127).round().clamp(-128, 127).to(torch.int8)
    bits = (q.to(torch.int32) & 0xFF) >> 2 ^ 3
    finfo = torch.finfo(x.dtype)
    return half, y, z, q.type(torch.uint8), bits, x.masked_fill(x > 0, finfo.min), finfo.eps, y.dtype, q.type()


@case((r(2, 3),), (r(3, 3),))
def kmeans(x: Any) -> Any:
    """Random choice of rows, assignment until nothing changes, empty clusters."""
    centers = x[torch.randperm(len(x))[:2]].clone()
    assign = None
    for _ in range(10):
        new = torch.cdist(x, centers).argmin(1)
        if assign is not None and torch.equal(new, assign):
            break
        assign = new
        for c in range(2):
            members = x[assign == c]
            if len(members):
                centers[c] = members.mean(0)
    return centers, assign, torch.bincount(assign, minlength=2)


@case((r(2, 1, 5, 5),), (r(1, 1, 6, 6),), backward=True)
class SSIM(nn.Module):
    """A Gaussian window from Python floats, cached by channel, moved by type_as."""

    def __init__(self) -> None:
        super().__init__()
        self.channel = 0
        self.window = self.create_window(1)

    def create_window(self, channel: int) -> Any:
        gauss = torch.Tensor([math.exp(-((x - 1) ** 2) / float(2 * 1.5**2)) for x in range(3)])
        one = (gauss / gauss.sum()).unsqueeze(1)
        two = one.mm(one.t()).float().unsqueeze(0).unsqueeze(0)
        return torch.autograd.Variable(two.expand(channel, 1, 3, 3).contiguous())

    def forward(self, img: Any) -> Any:
        channel = img.size()[1]
        if channel == self.channel and self.window.data.type() == img.data.type():
            window = self.window
        else:
            window = self.create_window(channel).type_as(img)
            self.window, self.channel = window, channel
        mu = F.conv2d(img, window, padding=1, groups=channel)
        sigma = F.conv2d(img * img, window, padding=1, groups=channel) - mu.pow(2)
        return ((2 * mu + 1e-4) / (mu.pow(2) + sigma + 9e-4)).mean()


@case((r(2, 3).numpy().tolist(), 1), ([[1, 2], [3, 4]], 0))
def from_lists(rows: Any, axis: int) -> Any:
    t = torch.tensor(rows)
    big = torch.FloatTensor(rows).new_tensor([sum(row) for row in rows])
    s = torch.stack([torch.tensor(x) for row in rows for x in row])
    return t.sum(axis), big, s, torch.zeros(*t.shape, dtype=torch.bool), torch.arange(len(rows)), torch.Size([1, 2])


@case((r(6),), (r(5),))
def odeint(y0: Any) -> Any:
    """Adaptive steps: the step size is a Python float from data."""
    t, h, y, steps = 0.0, 0.1, y0, []
    f = lambda t, y: -y + math.sin(t)  # noqa: E731
    while t < 0.5 and len(steps) < 20:
        k1 = f(t, y)
        k2 = f(t + h, y + h * k1)
        error = (h * (k2 - k1) / 2).abs().max().item()
        if error < 0.05:
            t, y = t + h, y + h * (k1 + k2) / 2
            steps.append(h)
        h = min(0.3, 0.9 * h * (0.05 / max(error, 1e-6)) ** 0.5)
    return y, len(steps)
