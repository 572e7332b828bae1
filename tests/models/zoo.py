"""Small real models with random weights: five from transformers, two of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

TOKENS, WIDTH, HEADS, LAYERS = 64, 32, 4, 2


class MLP(nn.Module):
    """A stack of linear layers and activations."""

    def __init__(self, depth: int = 3, width: int = WIDTH) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        for layer in self.layers:
            x = F.relu(layer(x))
        logits = self.head(x)
        if labels is None:
            return logits
        return {"logits": logits, "loss": F.cross_entropy(logits, labels)}


class Residual(nn.Module):
    """Two convolutions with batch normalisation, and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """A small residual network for images."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32), blocks: int = 2, labels: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]))
        stages = []
        channels = widths[0]
        for index, width in enumerate(widths):
            for block in range(blocks):
                stages.append(Residual(channels, width, 2 if index and not block else 1))
                channels = width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, labels)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        x = self.stages(F.relu(self.stem(x)))
        logits = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        if labels is None:
            return logits
        return {"logits": logits, "loss": F.cross_entropy(logits, labels)}


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


def _bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=TOKENS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=64,
        num_labels=4,
        problem_type="single_label_classification",
    )
    return BertForSequenceClassification(config)


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=TOKENS,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # its class name does not say so, which would be a logged warning
    return model


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=TOKENS,
        d_model=WIDTH,
        d_ff=2 * WIDTH,
        d_kv=WIDTH // HEADS,
        num_layers=LAYERS,
        num_heads=HEADS,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        problem_type="single_label_classification",
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        image_size=16,
        patch_size=4,
        num_labels=4,
    )
    return ViTForImageClassification(config)


def _tokens(labels: bool, **more: Any) -> dict[str, Any]:
    ids = torch.randint(1, TOKENS, (2, 16))
    return {"input_ids": ids, **({"labels": ids.clone()} if labels else {}), **more}


def _classified(name: str, data: torch.Tensor, labels: bool) -> dict[str, Any]:
    return {name: data, **({"labels": torch.randint(0, 4, (len(data),))} if labels else {})}


def _bert_inputs(labels: bool) -> dict[str, Any]:
    ids = torch.randint(1, TOKENS, (2, 16))
    return {**_classified("input_ids", ids, labels), "attention_mask": torch.ones_like(ids)}


def _t5_inputs(labels: bool) -> dict[str, Any]:
    return _tokens(True) if labels else _tokens(False, decoder_input_ids=torch.randint(1, TOKENS, (2, 8)))


class Model(NamedTuple):
    """How to make a model and the keyword arguments of a call, with labels for training or without."""

    make: Callable[[], nn.Module]
    inputs: Callable[[bool], dict[str, Any]]


ZOO: dict[str, Model] = {
    "mlp": Model(MLP, lambda labels: _classified("x", torch.randn(8, WIDTH), labels)),
    "resnet": Model(ResNet, lambda labels: _classified("x", torch.randn(2, 3, 16, 16), labels)),
    "llama": Model(_llama, _tokens),
    "bert": Model(_bert, _bert_inputs),
    "gpt2": Model(_gpt2, _tokens),
    "t5": Model(_t5, _t5_inputs),
    "vit": Model(_vit, lambda labels: _classified("pixel_values", torch.randn(2, 3, 16, 16), labels)),
}


def make(name: str, *, train: bool) -> tuple[nn.Module, dict[str, Any]]:
    """A model in training or evaluation mode and the arguments of a call."""
    torch.manual_seed(0)
    model = ZOO[name].make().train(train)
    return model, ZOO[name].inputs(train)
