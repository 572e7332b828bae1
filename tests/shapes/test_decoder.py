"""A decoder whose cache is written and read through slices with tensor bounds: one graph for prefill and decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.harness import check
from tests.shapes import decoders
from tests.shapes.decoders import KINDS

LENGTH = 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(2, 2, LENGTH, 4))
        self.register_buffer("values", torch.zeros(2, 2, LENGTH, 4))

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.keys[:, :, start : start + n] = k
        self.values[:, :, start : start + n] = v
        keys, values = self.keys[:, :, : start + n], self.values[:, :, : start + n]
        mask = torch.arange(LENGTH)[None, : start + n] <= (start + torch.arange(n))[:, None]
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, n, 8))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.positions = nn.Embedding(LENGTH, 8)
        self.blocks = nn.ModuleList(Attention() for _ in range(2))
        self.norm = nn.LayerNorm(8)

    def forward(self, ids: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.positions.weight[start : start + ids.shape[1]]
        for block in self.blocks:
            x = x + block(self.norm(x), start)
        return self.norm(x)[:, -1] @ self.embed.weight.T


def generate(model: Any, step: Any) -> list[torch.Tensor]:
    """Logits of a prefill and of steps of one token."""
    for block in model.blocks:
        block.keys.zero_()
        block.values.zero_()
    ids = torch.arange(10).view(2, 5)
    start = 0
    seen = []
    for _ in range(6):
        logits = step(ids, torch.tensor(start))
        seen.append(logits)
        start += ids.shape[1]
        ids = logits.argmax(-1, keepdim=True)
    return [*seen, *(block.keys.clone() for block in model.blocks)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_decoder(backend: str) -> None:
    model = Decoder()
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            for got, want in zip(generate(model, compiled), generate(model, model), strict=True):
                torch.testing.assert_close(got, want)
    counts = stator.stats()
    assert counts["graphs"] == 2 and counts["graph_breaks"] == 0  # one to prefill, one to decode


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_caches(kind: str) -> None:
    torch.manual_seed(0)
    model = decoders.Decoder(KINDS[kind])
    compiled = stator.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            for got, want in zip(generate(model, compiled), generate(model, model), strict=True):
                torch.testing.assert_close(got, want)
    assert stator.stats()["graphs"] == 2


def written(cache: torch.Tensor, new: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """The batch is cut to size in front of the place that a tensor tells."""
    b, n, _ = new.shape
    cache = cache.clone()
    cache[:b, start : start + n] = new.view(b, n, 2, 4)
    return cache[:b, : start + n] * 2


def test_a_slice_by_numbers_in_front_of_one_by_tensors() -> None:
    check(written, torch.zeros(3, 9, 2, 4), torch.randn(2, 5, 8), torch.tensor(1))


def test_what_backends_ask_of_memory_is_a_relation_of_sizes() -> None:
    """Whether the place that is written has gaps, which torch asks of copies."""

    def vary(call: int) -> tuple[torch.Tensor, ...]:
        return torch.zeros(3, 20, 2, 4), torch.randn(2, (5, 4, 7, 9, 12)[call], 8), torch.tensor(call)

    with torch.no_grad():
        check(
            written, vary=[vary(call) for call in range(5)], backend="aot_eager", expect_recompiles=1, expect_graphs=2
        )
