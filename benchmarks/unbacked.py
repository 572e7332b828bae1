"""Run time with Inductor of graphs with sizes that only data tells, next to the same with sizes from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import stator
from benchmarks.engines import Failed, interleaved, number

Case = tuple[nn.Module, Callable[[], torch.Tensor]]
ROWS = 256
REPEATS = 5


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, width = x.shape
        q, k, v = (part.view(n, 4, width // 4).transpose(0, 1) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(n, width))
        return x + self.mlp(self.norm2(x))


class Pointwise(nn.Module):
    """Elementwise operations and reductions, which Inductor fuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.softmax(torch.tanh(x) * x.sigmoid() + 1, -1)
            x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        return x


def models() -> dict[str, Case]:
    """Models by name, with inputs whose first size is the one that varies."""
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64))
    convolutions = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3))
    encoder = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return {
        "MLP": (mlp, lambda: torch.randn(ROWS, 256)),
        "transformer block": (Block(), lambda: torch.randn(ROWS, 128)),
        "encoder layer": (encoder, lambda: torch.randn(ROWS // 16, 32, 128)),
        "pointwise and reductions": (Pointwise(), lambda: torch.randn(ROWS, 512)),
        "convolutions": (convolutions, lambda: torch.randn(ROWS // 16, 3, 32, 32)),
    }


def compiled(model: nn.Module, make: Callable[[], torch.Tensor], mark: Callable[..., None]) -> Callable[[], float]:
    """A measurement (ms) of calls of the model compiled with a marked first dimension."""
    x = make()
    mark(x, 0)
    call: Callable[..., Any] = stator.compile(model, fullgraph=True)

    def measure() -> float:
        with torch.no_grad():
            start = time.perf_counter()
            for _ in range(REPEATS):
                call(x)
            return (time.perf_counter() - start) / REPEATS * 1e3

    measure()
    return measure


def table(rounds: int) -> list[tuple[str, ...]]:
    """One row per model: milliseconds of either, and their ratio."""
    rows: list[tuple[str, ...]] = [("model", "backed", "unbacked", "unbacked / backed")]
    for name, (model, make) in models().items():
        measures = {
            "backed": compiled(model, make, stator.mark_dynamic),
            "unbacked": compiled(model, make, stator.mark_unbacked),
        }
        times = interleaved(measures, 4 * rounds)
        backed, unbacked = times["backed"], times["unbacked"]
        failed = isinstance(backed, Failed) or isinstance(unbacked, Failed)
        share = "–" if failed else f"{unbacked / backed:.3f}"  # type: ignore[operator]
        rows.append((name, number(backed), number(unbacked), share))
    return rows
