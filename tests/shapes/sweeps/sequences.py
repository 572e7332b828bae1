"""Sequences of changing number and length."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.shapes.sweeps.registry import sized, sweep


def tokens(b, s):
    return torch.randint(0, 20, (b, s))


@sweep(sized(lambda b, s: torch.randn(b, s, 6)), quick=False)
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.out = nn.Linear(10, 3)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return self.out(y[:, -1]), h.mean(0), c


@sweep(
    sized(
        lambda b, s: torch.randn(b, s, 6), first=[3, 2, 5, 1, 4, 1, 6, 2, 3, 7], second=[8, 13, 5, 9, 3, 2, 16, 7, 4, 6]
    )
)
class ShrinkingLstm(nn.Module):
    """Longer sequences come before shorter ones, and batches of one late."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, num_layers=2, batch_first=True)
        self.out = nn.Linear(5, 4)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, self.out(y), h.mean(0), c


@sweep(sized(lambda b, s: (torch.randn(s, b, 6), torch.randn(2, b, 6))))
class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 6, num_layers=2)

    def forward(self, x, h):
        y, h = self.rnn(x, h)
        return y.max(0).values, h


@sweep(sized(lambda b, s: torch.randn(b, 3), second=[4] * 10), quick=False)
class CellLoop(nn.Module):
    """A recurrent cell unrolled for a fixed number of steps, for batches of all sizes."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 3)
        c = torch.zeros_like(h)
        for _ in range(4):
            h, c = self.cell(x, (h, c))
            x = x + h
        return x


@sweep(sized(lambda b, s: (torch.randn(b, s, 8), torch.rand(b, s) > 0.8)), quick=False)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


@sweep(sized(lambda b, s: (torch.randn(b, s, 8), torch.randn(b, s + 2, 8))), train=False, quick=False)
class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.model(source, target, tgt_mask=mask, tgt_is_causal=True)


@sweep(sized(tokens))
class Gpt(nn.Module):
    """Causal buffers are cut to the length at hand; logits and loss are shifted."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(20, 16), nn.Embedding(32, 16)
        self.qkv, self.proj = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.register_buffer("causal", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

    def forward(self, idx):
        b, t = idx.size()
        assert t <= 32, f"cannot take {t} tokens"
        x = self.wte(idx) + self.wpe(torch.arange(0, t, dtype=torch.long, device=idx.device))
        q, k, v = self.qkv(self.norm(x)).split(16, dim=2)
        q, k, v = (y.view(b, t, 4, 16 // 4).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att.masked_fill(self.causal[:, :, :t, :t] == 0, float("-inf")), dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).contiguous().view(b, t, 16))
        logits = x @ self.wte.weight.t()
        return logits, F.cross_entropy(logits[:, :-1].reshape(-1, 20), idx[:, 1:].reshape(-1))


@sweep(sized(lambda b, s: torch.randn(b, s, 16)))
class Rotary(nn.Module):
    """Rotary embeddings from a table that grows in frequency, grouped heads, a sliding window."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("freq", 1.0 / 100 ** (torch.arange(0, 4, 2).float() / 4))

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, 4, 4).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, 2, 4).permute(2, 0, 3, 1, 4)
        angle = torch.outer(torch.arange(t, dtype=torch.float32), self.freq)
        cos, sin = torch.cat((angle.cos(),) * 2, -1), torch.cat((angle.sin(),) * 2, -1)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        k, v = (y[:, :, None].expand(b, 2, 2, t, 4).reshape(b, 4, t, 4) for y in (k, v))
        i = torch.arange(t)
        window = (i[:, None] >= i[None]) & (i[:, None] - i[None] < 3)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=window)
        return out.transpose(1, 2).reshape(b, t, -1)


@sweep(sized(lambda b, s: torch.randn(b, s, 8)))
class RelativeBias(nn.Module):
    """Buckets of relative positions as in T5."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, 2)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        t = x.shape[1]
        relative = torch.arange(t)[None] - torch.arange(t)[:, None]
        distance = relative.abs()
        large = 4 + (torch.log(distance.float().clamp(min=1) / 4) / math.log(4) * 4).long()
        bucket = torch.where(distance < 4, distance, large.clamp(max=7))
        bias = self.bias(bucket).permute(2, 0, 1)
        mask = bias.repeat(x.shape[0], 1, 1)
        out, weights = self.attention(x, x, x, attn_mask=mask, need_weights=True)
        return out, weights


@sweep(sized(lambda b, s: (torch.randint(0, 30, (b * s,)), torch.arange(0, b * s, s))))
class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(30, 6, mode="mean")
        self.towers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, values, offsets):
        x = self.bag(values, offsets)
        parts = torch.stack([tower(x) for tower in self.towers], 1)
        cross = torch.bmm(parts, parts.transpose(1, 2))
        i, j = torch.tril_indices(3, 3, -1)
        return torch.cat([x, cross[:, i, j]], 1)


@sweep(sized(lambda b, s: torch.randn(b, 1, s * 16)))
class Wave(nn.Module):
    """Dilated causal convolutions and a spectrum."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(1, 1, 2, dilation=2**i) for i in range(3))

    def forward(self, x):
        total = 0
        for i, conv in enumerate(self.convs):
            y = torch.tanh(conv(F.pad(x, (2**i, 0))))
            x, total = x + y, total + y
        frames = total.squeeze(1).unfold(-1, 8, 4) * torch.hann_window(8)
        power = torch.fft.rfft(frames).abs() ** 2
        return total, power.mean(1), x.shape[-1] // 4


@sweep(sized(tokens))
class StateSpace(nn.Module):
    """A linear recurrence by cumulative sums, and a convolution over time."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.conv = nn.Conv1d(8, 8, 4, groups=8, padding=3)
        self.decay = nn.Parameter(torch.rand(8))

    def forward(self, idx):
        x = self.embed(idx)
        t = x.shape[1]
        x = F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))
        steps = torch.arange(t, dtype=x.dtype).unsqueeze(-1)
        weight = torch.exp(-self.decay.abs() * steps)
        return (x * weight.flip(0)).cumsum(1) / weight.flip(0).clamp(min=1e-3)
