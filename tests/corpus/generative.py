"""Generative models: sampling, flows, diffusion, quantisation."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import case, ints, r


@case((r(3, 6),), (r(2, 6),), backward=True)
class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.Linear(6, 8)
        self.fc_mu, self.fc_var = nn.Linear(8, 2), nn.Linear(8, 2)
        self.dec = nn.Sequential(nn.Linear(2, 6), nn.Sigmoid())

    def reparameterize(self, mu: Any, logvar: Any) -> Any:
        if self.training:
            std = torch.exp(0.5 * logvar)
            eps = torch.randn_like(std)
            return eps.mul(std).add_(mu)
        return mu

    def forward(self, x: Any, **kwargs: Any) -> Any:
        h = F.relu(self.enc(x))
        mu, logvar = self.fc_mu(h), self.fc_var(h)
        z = self.reparameterize(mu, logvar)
        recon = self.dec(z)
        kld = torch.mean(-0.5 * torch.sum(1 + logvar - mu**2 - logvar.exp(), dim=1), dim=0)
        return {"loss": F.mse_loss(recon, x) + kwargs.get("kld_weight", 0.1) * kld, "KLD": -kld.detach(), "z": [z]}


@case((r(3, 4),), (r(2, 4),))
class DistributionVAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        mu, log = self.net(x).chunk(2, dim=-1)
        q = D.Normal(mu, log.exp())
        z = q.rsample()
        p = D.Normal(torch.zeros_like(z), torch.ones_like(z))
        return z, D.kl_divergence(q, p).sum(-1), q.log_prob(z)


@case((r(3, 4),), (r(4, 4),), backward=True)
class VectorQuantizer(nn.Module):
    """Codebook with EMA buffers written in training."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.embedding.weight.data.uniform_(-1 / 5, 1 / 5)
        self.register_buffer("_ema_cluster_size", torch.zeros(5))
        self._ema_w = nn.Parameter(torch.randn(5, 4))

    def forward(self, x: Any) -> Any:
        d = (x**2).sum(1, keepdim=True) + (self.embedding.weight**2).sum(1) - 2 * x @ self.embedding.weight.t()
        indices = torch.argmin(d, dim=1).unsqueeze(1)
        encodings = torch.zeros(indices.shape[0], 5)
        encodings.scatter_(1, indices, 1)
        quantized = torch.matmul(encodings, self.embedding.weight)
        if self.training:
            self._ema_cluster_size = self._ema_cluster_size * 0.9 + 0.1 * torch.sum(encodings, 0)
            n = torch.sum(self._ema_cluster_size.data)
            self._ema_cluster_size = (self._ema_cluster_size + 1e-5) / (n + 5e-5) * n
            dw = torch.matmul(encodings.t(), x)
            self._ema_w = nn.Parameter(self._ema_w * 0.9 + 0.1 * dw)
            self.embedding.weight.data.copy_(self._ema_w / self._ema_cluster_size.clamp(min=0.1).unsqueeze(1))
        quantized = x + (quantized - x).detach()
        avg = torch.mean(encodings, dim=0)
        return quantized, torch.exp(-torch.sum(avg * torch.log(avg + 1e-10)))


@case((r(2, 3, 4, 4), 3), (r(1, 3, 4, 4), 2))
class Diffusion(nn.Module):
    """A sampling loop that goes down in time, with tqdm-like iteration and buffers by name."""

    def __init__(self) -> None:
        super().__init__()
        betas = np.linspace(1e-4, 0.02, 10, dtype=np.float64)
        alphas = np.cumprod(1.0 - betas, axis=0)
        for name, value in {"betas": betas, "alphas_cumprod": alphas}.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))
        self.denoise_fn = nn.Conv2d(3, 3, 3, padding=1)
        self.time_mlp = nn.Linear(8, 3)

    def time_embedding(self, t: Any) -> Any:
        half = 4
        emb = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        emb = t[:, None].float() * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)

    def extract(self, a: Any, t: Any, shape: Any) -> Any:
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    @torch.inference_mode()
    def sample(self, x: Any, steps: int) -> Any:
        imgs = []
        for i in reversed(range(0, steps)):
            t = torch.full((x.shape[0],), i, dtype=torch.long)
            eps = self.denoise_fn(x) + self.time_mlp(self.time_embedding(t))[:, :, None, None]
            a = self.extract(self.alphas_cumprod, t, x.shape)
            noise = torch.randn_like(x) if i > 0 else 0.0
            x = (x - eps * (1 - a).sqrt()) / a.sqrt() + noise * self.extract(self.betas, t, x.shape).sqrt()
            imgs.append(x.clamp(-1.0, 1.0))
        return torch.stack(imgs)

    def forward(self, x: Any, steps: int) -> Any:
        t = torch.randint(0, 10, (x.shape[0],)).long()
        noise = torch.randn_like(x)
        a = self.extract(self.alphas_cumprod, t, x.shape)
        loss = F.l1_loss(noise, self.denoise_fn(a.sqrt() * x + (1 - a).sqrt() * noise), reduction="none")
        return loss.mean(), self.sample(x, steps).clone()


@case((r(3, 4),), (r(5, 4),), backward=True)
class RealNVP(nn.Module):
    """Flow steps in a ModuleList, inverse by reversed()."""

    def __init__(self) -> None:
        super().__init__()
        self.masks = nn.ParameterList(
            [nn.Parameter(torch.tensor([i % 2, 1 - i % 2] * 2).float(), requires_grad=False) for i in range(3)]
        )
        self.t = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.s = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)])
        self.prior = D.MultivariateNormal(torch.zeros(4), torch.eye(4))

    def forward(self, x: Any) -> Any:
        log_det, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.masks[i] * z
            s = self.s[i](z_) * (1 - self.masks[i])
            t = self.t[i](z_) * (1 - self.masks[i])
            z = (1 - self.masks[i]) * (z - t) * torch.exp(-s) + z_
            log_det -= s.sum(dim=1)
        return z, log_det, self.prior.log_prob(z) + log_det


@case((r(2, 3, 5),), (r(4, 3, 5),))
def gumbel(logits: Any, tau: float = 0.7) -> Any:
    u = torch.rand(logits.shape)
    g = -torch.log(-torch.log(u + 1e-20) + 1e-20)
    y = F.softmax((logits + g) / tau, dim=-1)
    _, ind = y.max(dim=-1)
    hard = torch.zeros_like(y).view(-1, 5)
    hard.scatter_(1, ind.view(-1, 1), 1)
    return (hard.view_as(y) - y).detach() + y, F.gumbel_softmax(logits, tau=tau, hard=True)


class ImagePool:
    """History of generated images, as in CycleGAN."""

    def __init__(self, size: int) -> None:
        self.pool_size, self.num_imgs, self.images = size, 0, []

    def query(self, images: Any) -> Any:
        out = []
        for image in images:
            image = torch.unsqueeze(image.data, 0)
            if self.num_imgs < self.pool_size:
                self.num_imgs += 1
                self.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                k = random.randint(0, self.pool_size - 1)
                tmp = self.images[k].clone()
                self.images[k] = image
                out.append(tmp)
            else:
                out.append(image)
        return torch.cat(out, 0)


@case((r(2, 1, 3, 3),), (r(3, 1, 3, 3),), (r(2, 1, 3, 3),))
class CycleGAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.G = nn.Conv2d(1, 1, 1)
        self.fake_pool = ImagePool(3)

    def forward(self, x: Any) -> Any:
        self.fake = self.G(x)
        return self.fake_pool.query(self.fake)


@case((r(2, 4), 0), (r(2, 4), 1), (r(3, 4), 2))
class MixupCutout(nn.Module):
    """numpy.random and random decide what happens."""

    def forward(self, x: Any, epoch: int) -> Any:
        lam = np.random.beta(1.0, 1.0) if epoch > 0 else 1
        index = torch.randperm(x.size(0))
        mixed = lam * x + (1 - lam) * x[index, :]
        if np.random.rand() < 0.5:
            cut = np.random.randint(4)
            mixed[:, cut:] = 0
        if random.choice(["flip", "keep"]) == "flip":
            mixed = mixed.flip(-1)
        return mixed, lam


@dataclass
class SamplerState:
    x: Any
    history: list[Any] = field(default_factory=list)
    accepted: int = 0


@case((r(3),), (r(3),))
def langevin(x: Any) -> Any:
    """Metropolis-Hastings with a dataclass state; gradients by autograd.grad."""
    state = SamplerState(x.clone().requires_grad_(True))
    for _ in range(3):
        energy = (state.x**2).sum()
        (grad,) = torch.autograd.grad(energy, state.x)
        proposal = (state.x - 0.1 * grad + 0.1 * torch.randn_like(state.x)).detach().requires_grad_(True)
        if torch.rand(1) < torch.exp(energy - (proposal**2).sum()):
            state.accepted += 1
            state.x = proposal
        state.history.append(state.x.detach())
    return state


@case((ints(4, 2, 3, 3).float(),), (ints(4, 1, 3, 3).float(),), train=False)
class PixelCNN(nn.Module):
    """Masked convolution that changes its weight in forward; pixel by pixel sampling."""

    class MaskedConv(nn.Conv2d):
        def __init__(self, mask_type: str, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            assert mask_type in {"A", "B"}
            self.register_buffer("mask", self.weight.data.clone())
            _, _, h, w = self.weight.size()
            self.mask.fill_(1)
            self.mask[:, :, h // 2, w // 2 + (mask_type == "B") :] = 0
            self.mask[:, :, h // 2 + 1 :] = 0

        def forward(self, x: Any) -> Any:
            self.weight.data *= self.mask
            return super().forward(x)

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(self.MaskedConv("A", 1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 1))

    def forward(self, x: Any) -> Any:
        x = x.unsqueeze(1).clone()
        for i in range(2):
            for j in range(2):
                probs = F.softmax(self.net(x)[:, :, i, j], dim=1).data
                x[:, 0, i, j] = torch.multinomial(probs, 1).float().squeeze(1)
        return x
