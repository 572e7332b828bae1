"""A small GPT and the text it learns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

TEXT = (
    "The stator is the part of a dynamo that stands still. The rotor turns inside it, and the current flows. "
    "What moves is captured once by what does not move, and from then on it is only guarded. "
) * 8


@dataclass(frozen=True)
class Config:
    """Sizes of the model."""

    tokens: int = 128
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 4


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.project = nn.Linear(config.width, 3 * config.width)
        self.merge = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (part.view(shape).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.merge(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a two-layer network, each on a residual path."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.widen = nn.Linear(config.width, 4 * config.width)
        self.narrow = nn.Linear(4 * config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    """Token by token, what comes next."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.tokens, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.tokens, bias=False)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        result = {"logits": self.head(self.norm(x))}
        if targets is not None:
            result["loss"] = F.cross_entropy(result["logits"].flatten(0, 1), targets.flatten())
        return result


def batches(config: Config, count: int, size: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Random pieces of the text and what follows each character."""
    data = torch.tensor(list(TEXT.encode("ascii")))
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(count):
        starts = torch.randint(0, len(data) - config.context - 1, (size,), generator=generator).tolist()
        pieces = torch.stack([data[start : start + config.context + 1] for start in starts])
        made.append((pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()))
    return made
