"""Whole models on traced tensors: equal results, equal gradients, few propagations."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from stator.graph.backends import compile_graph
from stator.tensors.memo import memo
from tests.tensors.capturing import record_module


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        mask = torch.ones(time, time, dtype=torch.bool).tril()
        scores = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        scores = F.dropout(scores, 0.1, self.training)
        x = x + self.project((scores @ v).transpose(1, 2).contiguous().view(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers=12, width=32, heads=4, words=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.body(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRUCell(32, 8)

    def forward(self, x):
        out, (hidden, _) = self.lstm(x)
        return self.gru(out[:, -1]), hidden


def ids():
    return torch.randint(0, 64, (2, 8))


MODELS = {
    "gpt": (GPT, ids),
    "conv": (Convolutional, lambda: torch.randn(2, 3, 8, 8)),
    "lstm": (Recurrent, lambda: torch.randn(2, 5, 8)),
    "transformer": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        lambda: torch.randn(2, 5, 16),
    ),
    "mha": (lambda: Attention(), lambda: torch.randn(2, 5, 16)),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in flat(item)]


def compare(model, x, backend="eager"):
    """Result, gradients and buffers of a training step, eager against the graph."""
    torch.manual_seed(1)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def step(run):
        model.load_state_dict(start)
        model.zero_grad(set_to_none=True)
        torch.manual_seed(2)
        results = flat(run())
        torch.stack([result.float().pow(2).sum() for result in results if result.requires_grad]).sum().backward()
        grads = [p.grad for p in model.parameters()]
        return results, grads, [buffer.clone() for buffer in model.buffers()]

    expected = step(lambda: model(x))
    model.load_state_dict(start)
    captured = record_module(model, x)
    compiled = compile_graph(captured.module, captured.inputs, backend)
    model.load_state_dict(start)
    found = step(lambda: compiled(*captured.inputs))
    for wanted, got in zip(expected, found, strict=True):
        for a, b in zip(wanted, got, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b)
    return captured


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_models(name, training):
    make, data = MODELS[name]
    torch.manual_seed(0)
    compare(make().train(training), data())


@pytest.mark.parametrize("name", MODELS)
def test_models_with_aot_eager(name):
    make, data = MODELS[name]
    torch.manual_seed(0)
    model = make().train(name not in ("transformer", "gpt"))  # dropout is drawn differently by AOTAutograd
    compare(model, data(), "aot_eager")


def test_repeated_layers_are_propagated_once():
    model = GPT().eval()
    memo.clear()
    record_module(model, ids())
    once = memo.misses
    assert once < 40
    captured = record_module(model, ids())
    assert memo.misses == once
    assert len(captured.targets) > 300


TINY = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
)


def llama(attention):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**TINY, attn_implementation=attention))


def gpt2(attention):
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation=attention))


def bert(attention):
    from transformers import BertConfig, BertForMaskedLM

    sizes = {name: value for name, value in TINY.items() if name != "num_key_value_heads"}
    return BertForMaskedLM(BertConfig(**sizes, attn_implementation=attention))


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids, **({} if self.model.config.model_type == "bert" else {"use_cache": False})).logits


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("model", [llama, gpt2, bert], ids=lambda f: f.__name__)
def test_transformers(model, attention, monkeypatch):
    pytest.importorskip("transformers")
    logits = Logits(model(attention)).eval()  # the library looks at the flag while it loads, too
    monkeypatch.setattr(torch.compiler, "_is_compiling_flag", True)
    captured = compare(logits, ids())
    assert captured.recorder.mutated == []


def test_transformers_with_aot_eager(monkeypatch):
    pytest.importorskip("transformers")
    logits = Logits(llama("sdpa")).eval()
    monkeypatch.setattr(torch.compiler, "_is_compiling_flag", True)
    compare(logits, ids(), "aot_eager")
