"""Attention with caches of several kinds, each written and read at places that tensors tell."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LENGTH, WIDTH, HEADS = 12, 8, 2
SIZE = WIDTH // HEADS


class Cached(nn.Module):
    """Projections and buffers; `attend` is given queries, keys and values of the new tokens."""

    kv_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, self.kv_heads * SIZE)
        self.v, self.out = nn.Linear(WIDTH, self.kv_heads * SIZE), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", self.memory())
        self.register_buffer("values", self.memory())

    def memory(self) -> Tensor:
        return torch.zeros(2, self.kv_heads, LENGTH, SIZE)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q(x).view(b, n, HEADS, SIZE).transpose(1, 2)
        k, v = (part(x).view(b, n, self.kv_heads, SIZE).transpose(1, 2) for part in (self.k, self.v))
        y = self.attend(q, k, v, start)
        return self.out(y.transpose(1, 2).reshape(b, n, WIDTH))


class Rolling(Cached):
    """The last tokens only: older ones are shifted out."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
        n = k.shape[2]
        for cache, new in ((self.keys, k), (self.values, v)):
            cache.copy_(torch.cat([cache[:, :, n:], new], 2))
        seen = min((start + n).item(), LENGTH)
        keys, values = self.keys[:, :, LENGTH - seen :], self.values[:, :, LENGTH - seen :]
        mask = torch.ones(n, seen, dtype=torch.bool).tril(seen - n)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


class Static(Cached):
    """A fixed cache, written by index, masked beyond the end."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
        places = start + torch.arange(k.shape[2])
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        mask = torch.arange(LENGTH)[None] <= places[:, None]
        return F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)


class Paged(Cached):
    """Blocks of four places, found through a table; as many are read as are in use."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([[4, 0, 2], [1, 5, 3]]))

    def memory(self) -> Tensor:
        return torch.zeros(6, 4, self.kv_heads, SIZE)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
        n = k.shape[2]
        places = start + torch.arange(n)
        blocks, inside = self.table[:, places // 4], (places % 4).expand(2, n)
        self.keys[blocks, inside] = k.transpose(1, 2)
        self.values[blocks, inside] = v.transpose(1, 2)
        end = (start + n).item()
        used = self.table[:, : (end + 3) // 4]
        keys, values = (cache[used].flatten(1, 2)[:, :end].transpose(1, 2) for cache in (self.keys, self.values))
        mask = torch.arange(end)[None] <= places[:, None]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


class Grouped(Cached):
    """Several heads of queries for one of keys."""

    kv_heads = 1

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
        end = start + k.shape[2]
        self.keys[:, :, start:end] = k
        self.values[:, :, start:end] = v
        keys, values = (cache[:, :, :end].repeat_interleave(HEADS, 1) for cache in (self.keys, self.values))
        scores = q @ keys.transpose(2, 3) * SIZE**-0.5
        places = torch.arange(LENGTH)[:end]
        later = places[None] > (start + torch.arange(q.shape[2]))[:, None]
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ values


class Crossed(Cached):
    """Attention to itself, and to a memory of a length that a tensor tells, whose keys are made once."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("memory_length", torch.tensor(5))
        self.register_buffer("memory_keys", torch.linspace(-1, 1, 2 * HEADS * LENGTH * SIZE).view(self.keys.shape))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
        n = k.shape[2]
        self.keys[:, :, start : start + n] = k
        self.values[:, :, start : start + n] = v
        keys, values = self.keys.narrow(2, 0, start + n), self.values.narrow(2, 0, start + n)
        mask = torch.arange(LENGTH)[: start + n] <= (start + torch.arange(n))[:, None]
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        other = self.memory_keys[:, :, : self.memory_length]
        return y + F.scaled_dot_product_attention(y, other, other)


class ByRow(Cached):
    """Each row of the batch has a place of its own; the cache is read up to the longest."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
        n = k.shape[2]
        starts = torch.stack([start, start + 1])
        places = starts[:, None] + torch.arange(n)
        rows = torch.arange(2)[:, None].expand_as(places)
        self.keys[rows, :, places] = k.transpose(1, 2)
        self.values[rows, :, places] = v.transpose(1, 2)
        end = int(starts.max()) + n
        mask = torch.arange(end)[None, None] <= places[:, :, None]
        keys, values = self.keys[:, :, :end], self.values[:, :, :end]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None])


KINDS = {kind.__name__.lower(): kind for kind in (Rolling, Static, Paged, Grouped, Crossed, ByRow)}


class Decoder(nn.Module):
    """Two blocks of attention."""

    def __init__(self, kind: type[Cached]) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, WIDTH)
        self.blocks = nn.ModuleList(kind() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor, start: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(self.norm(x), start)
        return self.norm(x)[:, -1] @ self.embed.weight.T
