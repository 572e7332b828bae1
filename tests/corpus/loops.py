"""Loops that data ends, with work between their breaks: generation, halting, routing, solvers, training."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import built, case, ints, r


@case((r(1, 6), 1.0, 6), (r(1, 6), 0.7, 6), (r(1, 6), 0.5, 9), train=False)
class Generate(nn.Module):
    """Temperature, the best three, a penalty for repetition, a token that stops."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(9, 6), nn.Linear(6, 9)
        self.rnn = nn.GRU(6, 6, batch_first=True)

    def forward(self, context: Any, temperature: float, most: int) -> Any:
        ids, h = torch.tensor([[1]]), context.unsqueeze(0)
        for _ in range(most):
            out, h = self.rnn(self.emb(ids[:, -1:]), h)
            logits = self.head(out[:, -1]) / temperature
            for token in set(ids[0].tolist()):
                logits[0, token] /= 1.2
            best, _ = torch.topk(logits, 3)
            logits[logits < best[:, [-1]]] = -float("inf")
            token = torch.multinomial(F.softmax(logits, -1), 1)
            ids = torch.cat([ids, token], 1)
            if token.item() == 0:
                break
        return ids


@case((r(3, 4),), (r(3, 4),), (r(2, 4),), backward=True)
class Pondering(nn.Module):
    """Adaptive computation time: masks of what goes on, remainders, weighted outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.p = nn.GRUCell(4, 4), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        h, out = torch.zeros_like(x), torch.zeros_like(x)
        halting, remainder, n = torch.zeros(x.size(0)), torch.zeros(x.size(0)), 0
        while (halting < 0.99).any():
            h = self.cell(x, h)
            p, going = torch.sigmoid(self.p(h)).squeeze(-1), (halting < 1.0).float()
            ends = (halting + p * going > 0.99).float() * going
            going = (halting + p * going <= 0.99).float() * going
            halting = halting + p * going
            remainder = remainder + ends * (1 - halting)
            halting = halting + ends * remainder
            weight = p * going + ends * remainder
            out = out * (1 - weight).unsqueeze(-1) + h * weight.unsqueeze(-1)
            n += 1
            if n >= 8:
                break
        return out, n


class Iterate(NamedTuple):
    x: Any
    best: Any
    step: int = 0


@case((r(5),), (r(5),), (r(6),))
def proximal(x: Any) -> Any:
    """A proximal gradient method whose state is a named tuple; it starts again when the objective grows."""
    state = Iterate(x, x.abs().sum())
    for _ in range(12):
        z = state.x - 0.3 * (state.x - x)
        z = torch.sign(z) * (z.abs() - 0.05).clamp(min=0)
        objective = ((z - x) ** 2).sum() + 0.05 * z.abs().sum()
        if objective > state.best:
            state = state._replace(step=state.step + 1)
            continue
        if (state.best - objective).abs() < 1e-5:
            break
        state = Iterate(z, objective, state.step + 1)
    return state.x, state.step


@case((r(6, 4),), (r(6, 4),), (r(9, 4),))
class Dispatched(nn.Module):
    """A mixture of experts that Python goes through, which counts what each is given."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.load = nn.Linear(4, 3), [0, 0, 0]
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)) for _ in range(3))

    def forward(self, x: Any) -> Any:
        weights, chosen = F.softmax(self.gate(x), -1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            if token.numel() == 0:
                continue
            self.load[number] += token.numel()
            out.index_add_(0, token, expert(x[token]) * weights[token, place].unsqueeze(-1))
        return out, list(self.load)


@case((r(1, 3, 6, 6),), (r(2, 3, 6, 6),), (r(2, 3, 8, 6),), train=False)
class AnchorHead(nn.Module):
    """Anchors in a cache by size; the best of each image, those above a threshold, in a list of dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.cache = nn.Conv2d(3, 5, 3, padding=1), {}

    def anchors(self, h: int, w: int) -> Any:
        if (h, w) not in self.cache:
            y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            self.cache[h, w] = torch.stack([x, y, x + 2, y + 2], -1).view(-1, 4).float()
        return self.cache[h, w]

    def forward(self, x: Any) -> Any:
        found = self.conv(x)
        n, _, h, w = found.shape
        anchors = self.anchors(h, w)
        found = found.permute(0, 2, 3, 1).reshape(n, -1, 5)
        scores, boxes, results = found[..., 0].sigmoid(), found[..., 1:] + anchors, []
        for i in range(n):
            best, places = scores[i].topk(min(10, scores.shape[1]))
            keep = best > 0.5
            results.append({"boxes": boxes[i][places][keep], "scores": best[keep], "n": int(keep.sum())})
        return results


@built((r(8, 4), ints(3, 8)), (r(8, 4), ints(3, 8)), (r(5, 4), ints(3, 5)))
def epoch() -> Any:
    """Batches of a tensor, clipped gradients, a meter, a line for each second step."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(x: Any, y: Any) -> Any:
        total, count = 0.0, 0
        for step, (batch, labels) in enumerate(zip(x.split(2), y.split(2))):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), labels)
            if not math.isfinite(loss.item()):
                break
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total, count = total + loss.item() * len(batch), count + len(batch)
            if step % 2 == 0:
                print(f"{step}: {total / count:.3f}")
        return total / count

    return train


@built((r(4, 3),), (r(4, 3),), (r(4, 3),), (r(2, 3),))
def contrastive() -> Any:
    """A queue of keys with a pointer, the last losses in a deque, a warning when they rise."""
    encoder, queue, losses = nn.Linear(3, 2), F.normalize(torch.randn(2, 8), dim=0), deque(maxlen=3)
    state = {"at": 0, "rises": 0}

    def step(x: Any) -> Any:
        q = F.normalize(encoder(x), dim=1)
        logits = torch.cat([(q * q.detach()).sum(1, keepdim=True), q @ queue.clone()], 1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
        with torch.no_grad():
            for row in q.detach():
                queue[:, state["at"]] = row
                state["at"] = (state["at"] + 1) % 8
        losses.append(loss.item())
        if len(losses) > 1 and losses[-1] > losses[-2]:
            state["rises"] += 1
        return loss, dict(state)

    return step
