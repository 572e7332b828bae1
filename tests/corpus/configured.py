"""Programs driven by configuration: namespaces, attribute dicts, dataclasses, registries, enums, patterns."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import logging
import math
import re

import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import built, case, r

logger = logging.getLogger(__name__)


# ---- configuration ----------------------------------------------------------------------------------


class EasyDict(dict):
    def __init__(self, d=None, **kwargs):
        super().__init__()
        for key, value in {**(d or {}), **kwargs}.items():
            setattr(self, key, value)

    def __setattr__(self, name, value):
        if isinstance(value, dict) and not isinstance(value, EasyDict):
            value = EasyDict(value)
        super().__setattr__(name, value)
        super().__setitem__(name, value)

    __setitem__ = __setattr__


class AttrDict(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __setattr__(self, name, value):
        self[name] = value


class DictConfig:
    """OmegaConf-like: nodes behind `__getattr__`, with interpolation of `${a.b}`."""

    def __init__(self, content, parent=None):
        self.__dict__["_content"] = content
        self.__dict__["_parent"] = parent

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._content:
            raise AttributeError(name)
        return self._wrap(self._content[name])

    def __getitem__(self, name):
        return self._wrap(self._content[name])

    def __contains__(self, name):
        return name in self._content

    def get(self, name, default=None):
        return self[name] if name in self else default

    def _wrap(self, value):
        if isinstance(value, dict):
            return DictConfig(value, self)
        if isinstance(value, str) and (found := re.fullmatch(r"\$\{([\w.]+)\}", value)):
            node = self
            while node._parent is not None:
                node = node._parent
            for part in found.group(1).split("."):
                node = node[part]
            return node
        return value


@case((r(2, 8),), (r(3, 8),))
class NamespaceArgs(nn.Module):
    def __init__(self):
        super().__init__()
        self.args = argparse.Namespace(hidden=8, dropout=0.0, act="gelu", residual=True, scale=None)
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        args = self.args
        h = getattr(F, args.act)(self.fc(x))
        if args.dropout > 0 and self.training:
            h = F.dropout(h, args.dropout)
        if vars(args).get("residual"):
            h = h + x
        return h * (args.scale or 1.0 / math.sqrt(args.hidden))


@case((r(2, 4),), (r(2, 4),))
class EasyDictModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.cfg = EasyDict({"model": {"dim": 4, "heads": [1, 2]}, "loss": {"weight": 0.5}})
        self.proj = nn.Linear(self.cfg.model.dim, self.cfg.model.dim)

    def forward(self, x):
        cfg = self.cfg
        outs = EasyDict()
        for head in cfg.model.heads:
            outs[f"h{head}"] = self.proj(x) * head
        outs.total = sum(outs.values()) * cfg.loss["weight"]
        return dict(outs)


@case((r(2, 4),), (r(5, 4),))
def attr_dict(x):
    batch = AttrDict(x=x, meta=AttrDict(scale=2.0, flags={"norm": True}))
    batch.y = batch.x * batch.meta.scale
    if batch.meta.flags["norm"] and hasattr(batch, "y") and not hasattr(batch, "z"):
        batch.y = F.normalize(batch.y, dim=-1)
    return batch


@built((r(2, 4),), (r(5, 4),))
def omega_conf():
    cfg = DictConfig({"model": {"width": 4, "depth": 2}, "opt": {"width": "${model.width}", "lr": 0.1}})

    def run(x):
        for _ in range(cfg.model.depth):
            x = x * cfg.opt.lr + cfg.opt["width"] + cfg.get("missing", 0)
        return x / cfg.opt.width

    return run


@dataclasses.dataclass(frozen=True)
class BlockConfig:
    width: int = 4
    ratio: float = 0.5
    kinds: tuple = ("a", "b")
    extra: dict = dataclasses.field(default_factory=dict)

    @property
    def hidden(self):
        return int(self.width * self.ratio)


@case((r(2, 4),), (r(3, 4),))
class DataclassConfig(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = BlockConfig(extra={"bias": 1})
        self.down = nn.Linear(4, self.config.hidden)

    def forward(self, x):
        config = dataclasses.replace(self.config, ratio=0.25)
        y = self.down(x) * config.hidden
        for key, value in dataclasses.asdict(config).items():
            if isinstance(value, float):
                y = y * value
            elif key == "extra":
                y = y + value["bias"]
        return y


# ---- registries, dispatch ---------------------------------------------------------------------------


class Registry:
    def __init__(self, name):
        self._name, self._modules = name, {}

    def register(self, name=None):
        def wrap(fn):
            self._modules[name or fn.__name__] = fn
            return fn

        return wrap

    def build(self, cfg, *args):
        cfg = dict(cfg)
        kind = cfg.pop("type")
        if kind not in self._modules:
            raise KeyError(f"{kind} is not in the {self._name} registry")
        return self._modules[kind](*args, **cfg)


LOSSES = Registry("loss")


@LOSSES.register()
def smooth(pred, target, beta=1.0):
    diff = (pred - target).abs()
    return torch.where(diff < beta, 0.5 * diff**2 / beta, diff - 0.5 * beta).mean()


@LOSSES.register("focal")
def focal_loss(pred, target, gamma=2.0, alpha=0.25):
    p = pred.sigmoid()
    return -(alpha * (1 - p) ** gamma * target * p.clamp(min=1e-6).log()).mean()


@case((r(4), r(4)), (r(6), r(6)))
def registry_losses(pred, target):
    total, parts = 0, {}
    for cfg, weight in (({"type": "smooth", "beta": 0.5}, 1.0), ({"type": "focal", "gamma": 1.5}, 0.1)):
        parts[cfg["type"]] = LOSSES.build(cfg, pred, target)
        total = total + weight * parts[cfg["type"]]
    try:
        LOSSES.build({"type": "unknown"}, pred, target)
    except KeyError as error:
        parts["message"] = str(error)
    return total, parts


class Mode(enum.Enum):
    MEAN = "mean"
    MAX = "max"
    CLS = enum.auto()

    @classmethod
    def parse(cls, text):
        return cls[text.upper()]


class Flags(enum.IntFlag):
    NORM = 1
    SCALE = 2


@case((r(2, 3, 4), "mean", 3), (r(2, 3, 4), "max", 1), (r(2, 3, 4), "cls", 2))
def enum_dispatch(x, mode, flags):
    mode, flags = Mode.parse(mode), Flags(flags)
    match mode:
        case Mode.MEAN:
            y = x.mean(1)
        case Mode.MAX:
            y = x.max(1).values
        case _:
            y = x[:, 0]
    if Flags.NORM in flags:
        y = F.normalize(y, dim=-1)
    return y * 2 if flags & Flags.SCALE else y, mode.name


@functools.singledispatch
def to_device(value, scale):
    return value


@to_device.register
def _(value: torch.Tensor, scale):
    return value * scale


@to_device.register(list)
@to_device.register(tuple)
def _(value, scale):
    return type(value)(to_device(item, scale) for item in value)


@to_device.register
def _(value: dict, scale):
    return {key: to_device(item, scale) for key, item in value.items()}


@case(({"a": r(2), "b": [r(3), (r(1), "text")]}, 2.0))
def nested_batch(batch, scale):
    return to_device(batch, scale)


# ---- einops-like ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def parse_pattern(pattern):
    left, right = (side.strip() for side in pattern.split("->"))

    def groups(side):
        return [token.strip("()").split() for token in re.findall(r"\([^)]*\)|\S+", side)]

    return groups(left), groups(right)


def rearrange(x, pattern, **axes):
    left, right = parse_pattern(pattern)
    sizes = dict(axes)
    for group, size in zip(left, x.shape, strict=True):
        unknown = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(unknown) == 1:
            sizes[unknown[0]] = size // known
    flat = [name for group in left for name in group]
    x = x.reshape([sizes[name] for name in flat]).permute([flat.index(n) for g in right for n in g])
    return x.reshape([math.prod(sizes[name] for name in group) for group in right])


@case((r(2, 6, 4),), (r(2, 6, 4),))
def einops_like(x):
    q = rearrange(x, "b n (h d) -> (b h) n d", h=2)
    return rearrange(q @ q.transpose(1, 2) @ q, "(b h) n d -> b n (h d)", h=2)
