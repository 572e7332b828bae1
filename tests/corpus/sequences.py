"""Sequences: recurrent loops, attention, decoding, mixtures of experts."""

from __future__ import annotations

import heapq
import math
import random
from collections import namedtuple
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from tests.corpus.registry import case, ints, r


@case((r(4, 2, 3),), (r(5, 2, 3),), (r(4, 1, 3),), backward=True)
class StackedLSTM(nn.Module):
    """Cells in a loop over time; lists of hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(3, 4), nn.LSTMCell(4, 4)])
        self.drop = nn.Dropout(0.1)

    def init_hidden(self, batch: int) -> list[Any]:
        weight = next(self.parameters())
        return [(weight.new_zeros(batch, 4), weight.new_zeros(batch, 4)) for _ in self.cells]

    def forward(self, x: Any, hidden: Any = None) -> Any:
        hidden = hidden or self.init_hidden(x.size(1))
        outputs = []
        for step in x.split(1):
            step = step.squeeze(0)
            for i, cell in enumerate(self.cells):
                hidden[i] = cell(step, hidden[i])
                step = self.drop(hidden[i][0]) if i + 1 != len(self.cells) else hidden[i][0]
            outputs += [step]
        return torch.stack(outputs), hidden


@case((r(2, 4, 3), [4, 2]), (r(3, 5, 3), [5, 3, 1]))
class PackedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 4, bidirectional=True, batch_first=True)

    def forward(self, x: Any, lengths: list[int]) -> Any:
        self.rnn.flatten_parameters()
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        out, h = self.rnn(packed)
        out, lens = pad_packed_sequence(out, batch_first=True)
        return out, torch.cat([h[0], h[1]], 1), lens


@case((ints(9, 2, 4), ints(9, 2, 5)), (ints(9, 3, 4), ints(9, 3, 3)))
class Seq2Seq(nn.Module):
    """Teacher forcing by random.random(), per step."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(9, 4)
        self.enc = nn.GRU(4, 6, batch_first=True)
        self.cell = nn.GRUCell(4, 6)
        self.out = nn.Linear(6, 9)

    def forward(self, src: Any, tgt: Any, teacher_forcing_ratio: float = 0.5) -> Any:
        _, hidden = self.enc(self.emb(src))
        hidden = hidden[0]
        outputs = torch.zeros(tgt.shape[1], tgt.shape[0], 9)
        token = tgt[:, 0]
        for t in range(1, tgt.shape[1]):
            hidden = self.cell(self.emb(token), hidden)
            outputs[t] = self.out(hidden)
            use_teacher = random.random() < teacher_forcing_ratio
            token = tgt[:, t] if use_teacher else outputs[t].max(1)[1]
        return outputs


@case((r(2, 3, 8),), (r(2, 1, 8),), (r(2, 1, 8),), train=False)
class CachedAttention(nn.Module):
    """A key/value cache that grows as attributes of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(8, 24)
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))
        self.past: Any = None
        self.steps = 0

    def forward(self, x: Any) -> Any:
        b, t, c = x.size()
        q, k, v = (y.view(b, t, 2, c // 2).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        if self.past is not None:
            k = torch.cat((self.past[0], k), dim=-2)
            v = torch.cat((self.past[1], v), dim=-2)
        self.past = (k, v)
        self.steps += t
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        total = k.size(-2)
        att = att.masked_fill(self.bias[:, :, total - t : total, :total] == 0, float("-inf"))
        return (F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)


@case((r(5, 4),), (r(3, 4),), (r(6, 4),))
class PositionalEncoding(nn.Module):
    """A table that is made again when it is too short; register_buffer in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.pe: Any = None

    def extend(self, x: Any) -> None:
        if self.pe is not None and self.pe.size(0) >= x.size(0):
            return
        pe = torch.zeros(x.size(0), 4)
        position = torch.arange(0, x.size(0), dtype=torch.float32).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, 4, 2).float() * -(math.log(10000.0) / 4))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        del self.pe
        self.register_buffer("pe", pe)

    def forward(self, x: Any) -> Any:
        self.extend(x)
        return x + self.pe[: x.size(0)]


@case((r(5, 4),), (r(7, 4),), (r(5, 4),), backward=True)
class LazyMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask: Any = None

    def _generate_square_subsequent_mask(self, sz: int) -> Any:
        mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
        return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)

    def forward(self, x: Any) -> Any:
        n = x.size(0)
        if self.mask is None or self.mask.size(0) != n:
            self.mask = self._generate_square_subsequent_mask(n)
        return F.softmax(x @ x.t() + self.mask, -1) @ x


@case((r(6, 4),), (r(5, 4),), backward=True)
class MixtureOfExperts(nn.Module):
    """Routing by data: nonzero, index_add_, counts as Python numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)) for _ in range(3)])
        self.load = [0, 0, 0]

    def forward(self, x: Any) -> Any:
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            idx, top_x = torch.where(mask[i])
            if top_x.shape[0] == 0:
                continue
            self.load[i] += len(top_x)
            current = x[None, top_x].reshape(-1, 4)
            out.index_add_(0, top_x, expert(current) * weights[top_x, idx, None])
        return out


@case((r(4, 5), 2), (r(6, 5), 3))
def beam_search(logits: Any, width: int) -> Any:
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    for row in F.log_softmax(logits, dim=-1):
        candidates = []
        for seq, score in beams:
            top, idx = row.topk(width)
            for log_p, token in zip(top, idx):
                candidates.append((seq + [token.item()], score + log_p.item()))
        beams = sorted(candidates, key=lambda pair: pair[1], reverse=True)[:width]
    return torch.tensor([b[0] for b in beams]), [b[1] for b in beams]


class BeamNode:
    def __init__(self, prev: Any, word: Any, logp: float, length: int) -> None:
        self.prev, self.word, self.logp, self.length = prev, word, logp, length

    def eval(self, alpha: float = 1.0) -> float:
        return self.logp / float(self.length - 1 + 1e-6)

    def __lt__(self, other: Any) -> bool:
        return self.eval() < other.eval()


@case((ints(7, 1), r(7, 7)), (ints(7, 1), r(7, 7)))
def beam_queue(start: Any, table: Any) -> Any:
    """A priority queue of nodes that hold tensors."""
    queue: list[tuple[float, BeamNode]] = []
    node = BeamNode(None, start, 0, 1)
    heapq.heappush(queue, (-node.eval(), node))
    for _ in range(4):
        score, node = heapq.heappop(queue)
        logp = F.log_softmax(table[node.word], dim=-1)
        values, index = torch.topk(logp, 2)
        for k in range(2):
            fresh = BeamNode(node, index[0][k].view(-1), node.logp + values[0][k].item(), node.length + 1)
            heapq.heappush(queue, (-fresh.eval(), fresh))
    words = []
    best: Any = min(queue)[1]
    while best is not None:
        words.append(best.word)
        best = best.prev
    return torch.cat(words[::-1])


@case((ints(9, 1, 3),), (ints(9, 1, 4),), train=False)
class Sampler(nn.Module):
    """Generation: multinomial, nucleus filtering, stop at the end token."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(9, 8)
        self.head = nn.Linear(8, 9, bias=False)
        self.head.weight = self.wte.weight

    @torch.no_grad()
    def forward(self, idx: Any, max_new_tokens: int = 4, temperature: float = 0.8, top_k: int = 5) -> Any:
        for _ in range(max_new_tokens):
            cond = idx if idx.size(1) <= 5 else idx[:, -5:]
            logits = self.head(self.wte(cond).mean(1)) / temperature
            v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
            logits[logits < v[:, [-1]]] = -float("Inf")
            nxt = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, nxt), dim=1)
            if (nxt == 0).all():
                break
        return idx


@case((r(2, 4, 3),), (r(1, 5, 3),))
class CRF(nn.Module):
    """Viterbi decoding with back-pointers in lists."""

    def __init__(self) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(3, 3))

    def forward(self, emissions: Any) -> Any:
        paths = []
        for feats in emissions:
            score, back = feats[0], []
            for feat in feats[1:]:
                best, ids = (score.unsqueeze(1) + self.transitions).max(0)
                score = best + feat
                back.append(ids)
            tag = int(score.argmax())
            path = [tag]
            for ids in reversed(back):
                tag = ids[tag].item()
                path.append(tag)
            path.reverse()
            paths.append((path, score.max()))
        return paths


Output = namedtuple("Output", ["logits", "hidden", "attn"])


class Halting(NamedTuple):
    state: Any
    steps: int = 0
    cost: float = 0.0


@case((r(2, 4),), (r(3, 4),), backward=True)
class AdaptiveComputation(nn.Module):
    """while on tensors; a namedtuple with defaults that is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.halt = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        total = torch.zeros(x.size(0), 1)
        h = Halting(x)
        while (total < 0.95).any() and h.steps < 6:
            state = torch.tanh(self.cell(h.state))
            total = total + torch.sigmoid(self.halt(state))
            h = h._replace(state=state, steps=h.steps + 1)
        return h, total


@case((r(2, 3, 4),), (r(2, 5, 4),), backward=True)
class BahdanauDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.W, self.V = nn.Linear(8, 4), nn.Linear(4, 1, bias=False)

    def step(self, query: Any, memory: Any, **extras: Any) -> Any:
        energy = torch.tanh(self.W(torch.cat([query.unsqueeze(1).expand_as(memory), memory], -1)))
        attn = F.softmax(self.V(energy).squeeze(-1) / extras.get("temperature", 1.0), dim=-1)
        return Output(attn.unsqueeze(1).bmm(memory).squeeze(1), query, attn)

    def forward(self, memory: Any, **kwargs: Any) -> Any:
        query, outs = memory[:, 0], []
        for _ in range(2):
            out = self.step(query, memory, temperature=2.0, **kwargs)
            query, *_rest = out
            outs.append(out)
        return Output(*map(torch.stack, zip(*outs)))


@case(([r(3), r(2)],), ([r(1), r(4), r(2)],))
def collate(sequences: list[Any]) -> Any:
    lengths = torch.tensor([len(s) for s in sequences])
    padded = pad_sequence(sequences, batch_first=True)
    mask = torch.arange(padded.size(1))[None, :] < lengths[:, None]
    order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
    return padded[order], mask[order], lengths[torch.as_tensor(order)]


@case((["the cat sat", "a dog"],), (["a cat", "the end of dogs"],))
class Tokenizing(nn.Module):
    """Text to ids inside forward; a vocabulary that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.vocab = {"<pad>": 0, "the": 1}
        self.emb = nn.EmbeddingBag(32, 4, mode="mean")

    def forward(self, texts: list[str]) -> Any:
        ids, offsets = [], [0]
        for text in texts:
            for word in text.lower().split():
                if word not in self.vocab:
                    self.vocab[word] = len(self.vocab)
                ids.append(self.vocab[word])
            offsets.append(len(ids))
        return self.emb(torch.tensor(ids), torch.tensor(offsets[:-1]))


@case((r(2, 6, 4), None), (r(2, 6, 4), ints(2, 2, 6).bool()), train=False)
class Rotary(nn.Module):
    """Rotary embedding with a cache by length, complex form, sdpa."""

    def __init__(self) -> None:
        super().__init__()
        self.cached: tuple[int, Any] | None = None
        self.proj = nn.ModuleDict({k: nn.Linear(4, 4) for k in "qkv"})

    def freqs(self, n: int) -> Any:
        if self.cached is None or self.cached[0] < n:
            inv = 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4))
            self.cached = (n, torch.polar(torch.ones(n, 2), torch.outer(torch.arange(n).float(), inv)))
        return self.cached[1][:n]

    def rotate(self, x: Any) -> Any:
        c = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(c * self.freqs(x.shape[1])).flatten(2).type_as(x)

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = (self.proj[name](x) for name in self.proj)
        q, k = self.rotate(q), self.rotate(k)
        if mask is not None:
            mask = mask[:, None, :].expand(-1, x.size(1), -1) | torch.eye(x.size(1), dtype=torch.bool)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)


@case((r(3, 2, 4), torch.tensor([3, 2])), (r(4, 2, 4), torch.tensor([4, 1])))
class MaskedPool(nn.Module):
    """Lengths in a tensor: loops to their values."""

    def forward(self, x: Any, lengths: Any) -> Any:
        mask = torch.zeros(x.shape[:2])
        for i, length in enumerate(lengths):
            mask[:length, i] = 1
        last = torch.stack([x[n - 1, i] for i, n in enumerate(lengths.tolist())])
        return (x * mask.unsqueeze(-1)).sum(0) / lengths.unsqueeze(1), last, max(lengths)
