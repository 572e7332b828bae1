"""Graphs, sets and tables of changing size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.sweeps.registry import sized, sweep


def graph(n, e):
    return torch.randn(n + 2, 4), torch.randint(0, n + 2, (2, 3 * e))


@sweep(sized(graph))
class Gcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 3)

    def layer(self, x, edges, linear):
        source, target = edges
        n = x.size(0)
        degree = torch.zeros(n).scatter_add_(0, target, torch.ones(target.numel())).clamp(min=1)
        messages = linear(x)[source] * (degree[source] * degree[target]).rsqrt().unsqueeze(-1)
        return torch.zeros(n, messages.shape[-1]).index_add_(0, target, messages)

    def forward(self, x, edges):
        return F.log_softmax(self.layer(F.relu(self.layer(x, edges, self.one)), edges, self.two), -1)


@sweep(sized(graph))
class Gat(nn.Module):
    """Attention over the edges of each node: a softmax by segments."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 6)
        self.score = nn.Linear(12, 1)

    def forward(self, x, edges):
        h = self.linear(x)
        score = F.leaky_relu(self.score(torch.cat([h[edges[0]], h[edges[1]]], -1))).squeeze(-1)
        top = torch.full((x.size(0),), float("-inf")).scatter_reduce(0, edges[1], score, "amax")
        weight = (score - top[edges[1]]).exp()
        total = torch.zeros(x.size(0)).scatter_add(0, edges[1], weight)
        weight = weight / (total[edges[1]] + 1e-9)
        out = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]] * weight[:, None])
        return out, x.new_tensor([x.size(0), edges.size(1)])


@sweep(sized(lambda b, s: torch.randn(b, s + 4, 3)), quick=False)
class PointNet(nn.Module):
    """Nearest neighbours, edge features, pooling over points."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x):
        b, n, d = x.shape
        near = torch.cdist(x, x).topk(4, largest=False).indices
        flat = (near + torch.arange(b)[:, None, None] * n).view(-1)
        neighbours = x.reshape(b * n, d)[flat].view(b, n, 4, d)
        edge = torch.cat([neighbours - x.unsqueeze(2), x.unsqueeze(2).expand(-1, -1, 4, -1)], -1)
        return self.mlp(edge).amax(2).max(1)[0]


@sweep(sized(lambda b, s: (torch.randn(b, 8), torch.randn(s, 8))), quick=False)
def contrastive(a, b):
    """All pairs of two sets of changing size."""
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    scores = a @ b.T / 0.1
    best, where = scores.max(1)
    order = torch.argsort(best, descending=True)
    return scores.logsumexp(1).mean(), best, where[order], torch.einsum("id,jd->ij", a, b).trace()


@sweep(sized(lambda b, s: (torch.randn(b, s, 5), torch.randint(1, s + 1, (b,)))))
def masked_statistics(x, lengths):
    """Statistics over the valid part of padded rows."""
    mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
    count = mask.sum(1, keepdim=True)
    mean = (x * mask[..., None]).sum(1) / count
    var = (((x - mean[:, None]) ** 2) * mask[..., None]).sum(1) / count
    last = x[torch.arange(x.size(0)), lengths - 1]
    flat = x.masked_fill(~mask[..., None], float("-inf")).flatten(1)
    return mean, var, last, flat.softmax(-1).view_as(x), flat.argmax(-1) // x.shape[-1]


@sweep(sized(lambda b, s: (torch.randn(s, b, 4), torch.rand(s, b), torch.rand(s, b) > 0.9)), quick=False)
def advantages(values, rewards, done):
    """Discounted returns over time by matrix products, for a policy gradient."""
    t = rewards.shape[0]
    i = torch.arange(t)
    power = (i[None] - i[:, None]).clamp(min=0)
    discount = torch.where(i[None] >= i[:, None], 0.9**power, torch.zeros(()))
    returns = discount @ (rewards * ~done)
    baseline = values.mean(-1)
    advantage = returns - baseline
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return advantage.reshape(-1), returns.flatten(0, 1).view(t, -1).T
