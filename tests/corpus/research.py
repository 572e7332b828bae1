"""Programs as found in research code: caches, counters, hooks, timers, logs, fallbacks."""

from __future__ import annotations

import collections
import contextlib
import copy
import enum
import functools
import itertools
import logging
import math
import os
import random
import time
import types
import typing
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import built, case, r

logger = logging.getLogger(__name__)


# ---- state and caches -------------------------------------------------------------------------------


@case((r(2, 5, 4),), (r(2, 5, 4),), (r(2, 7, 4),))
class CachedPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self._cache = {}

    def forward(self, x):
        n, d = x.shape[-2:]
        if (n, d) not in self._cache:
            pos = torch.arange(n, dtype=x.dtype)[:, None]
            freq = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
            self._cache[n, d] = torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], -1)
        return x + self._cache[n, d]


STEP = 0
HISTORY: list = []


@case((r(3),), (r(3),), (r(3),), globals=["STEP"], expect_graphs=None)
def global_counter(x):
    global STEP
    STEP += 1
    if STEP % 2 == 0:
        HISTORY.append(x.shape)
    return x * min(1.0, STEP / 10)


@case((r(4, 3),), (r(4, 3),))
class EMA(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.updates = 0

    @torch.no_grad()
    def update(self, x, decay=0.9):
        self.updates += 1
        decay = min(decay, (1 + self.updates) / (10 + self.updates))
        self.mean.mul_(decay).add_(x.mean(0), alpha=1 - decay)

    def forward(self, x):
        if self.training:
            self.update(x)
        return self.net(x - self.mean)


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


@built((r(3),), (r(3),), expect_graphs=None)
def meters():
    meter = AverageMeter("size", ":.2f")

    def run(x):
        meter.update(x.numel())
        return x + meter.avg, str(meter)

    return run


# ---- logging, timing, warnings, environment ---------------------------------------------------------


@case((r(2, 3),), (r(4, 3),))
def logs_shapes(x):
    logger.info("shape %s dtype %s", tuple(x.shape), x.dtype)
    logger.debug(f"mean over {x.ndim} dims on {x.device}")
    if logger.isEnabledFor(logging.WARNING):
        logger.warning("big batch: %d", x.size(0))
    return x.relu()


@contextlib.contextmanager
def timer(store, name):
    start = time.perf_counter()
    try:
        yield
    finally:
        store.setdefault(name, []).append(time.perf_counter() - start >= 0)


@case((r(3, 3),), (r(3, 3),))
def timed(x):
    times = {}
    with timer(times, "mm"):
        y = x @ x
    with timer(times, "relu"):
        y = y.relu()
    return y, times


def timeit(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        start = time.time()
        result = fn(*args, **kwargs)
        wrapper.calls += 1
        wrapper.positive = time.time() >= start
        return result

    wrapper.calls = 0
    return wrapper


@case((r(3, 3),), (r(3, 3),))
def decorated_timer(x):
    @timeit
    def work(x, n):
        for _ in range(n):
            x = x @ x
        return x

    return work(x, n=2), work.calls


@case((r(3),), (r(3),))
def warns_and_env(x):
    if os.environ.get("STATOR_TEST_DEBUG", "0") == "1":
        raise RuntimeError("debugging")
    if x.ndim == 1:
        warnings.warn("expected a batch", stacklevel=2)
        x = x.unsqueeze(0)
    return x * int(os.getenv("STATOR_TEST_SCALE", "2"))


@case((r(3),), (r(3),))
def python_random(x):
    if random.random() < 2:
        x = x * random.choice([1.0, 1.0])
    return x + random.randint(1, 1), np.random.RandomState(0).rand() < 2


# ---- modules ----------------------------------------------------------------------------------------


class Output(typing.NamedTuple):
    logits: torch.Tensor
    hidden: tuple = ()
    loss: torch.Tensor | None = None


@case((r(2, 4), None), (r(2, 4), r(2, 4)))
class NamedOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, target):
        hidden = []
        for i, layer in enumerate(self.layers, 1):
            x = layer(x).tanh() if i < len(self.layers) else layer(x)
            hidden.append(x)
        loss = F.mse_loss(x, target) if target is not None else None
        out = Output(x, tuple(hidden), loss)
        return out._replace(logits=out.logits * 2)


@case((r(2, 4),), (r(2, 4),))
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        self.features = {}
        for name, layer in self.net.named_children():
            layer.register_forward_hook(self.save(name))
        self.net[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def save(self, name):
        def hook(module, args, output):
            self.features[name] = output.detach().mean()

        return hook

    def forward(self, x):
        self.features.clear()
        out = self.net(x)
        return out, sum(self.features.values())


class Delegating(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x):
        return self.inner(x)


@built((r(2, 4),), (r(2, 4),))
def delegation():
    inner = nn.Linear(4, 4)
    inner.scale = 3.0
    wrapper = Delegating(Delegating(inner))

    def run(x):
        return wrapper(x) * wrapper.scale + wrapper.weight.sum() + wrapper.in_features

    return run


@case((r(2, 4),), (r(2, 4),))
class Properties(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self._heads = 2

    @property
    def device(self):
        return next(self.parameters()).device

    @property
    def dtype(self):
        return self.q.weight.dtype

    @functools.cached_property
    def scale(self):
        return (4 // self.heads) ** -0.5

    @property
    def heads(self):
        return self._heads

    @heads.setter
    def heads(self, value):
        self._heads = int(value)

    def forward(self, x):
        x = x.to(device=self.device, dtype=self.dtype)
        self.heads = 2.0
        return (self.q(x) * self.k(x)).view(2, self.heads, -1).sum(-1) * self.scale


@case((r(2, 4),), (r(2, 4),))
class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sequential(nn.Linear(4, 4), nn.ReLU())})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4) * i) for i in range(2)])
        self.table = nn.ParameterDict({"shift": nn.Parameter(torch.zeros(4))})

    def forward(self, x):
        for (name, block), scale in zip(self.blocks.items(), self.scales, strict=True):
            x = block(x) * scale if name in self.blocks else x
        count = sum(p.numel() for p in self.parameters() if p.requires_grad)
        names = [name for name, _ in self.named_modules()]
        return x + self.table["shift"], count, names, len(self.blocks), isinstance(self.blocks["b"], nn.Sequential)


@case((r(2, 4),), (r(2, 4),))
class LazyInit(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = None
        self.ready = False

    def forward(self, x):
        if not self.ready:
            self.weight = torch.full((x.size(-1),), 0.5)
            self.ready = True
        return x * self.weight


@case((r(2, 4),), (r(2, 4),))
class Stochastic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.drop = [0.0, 0.5]

    def forward(self, x):
        for layer, p in zip(self.layers, self.drop, strict=True):
            keep = torch.rand(x.size(0), 1) >= p if self.training and p > 0 else 1.0
            x = x + layer(x) * keep
        return x


class Mixin:
    def extra(self, x):
        return super().extra(x) * 2 if hasattr(super(), "extra") else x


class WithExtra:
    def extra(self, x):
        return x + 1


@case((r(2, 4),), (r(2, 4),))
class Inherited(Mixin, WithExtra, nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x):
        return self.extra(super().forward(x))


# ---- control flow -----------------------------------------------------------------------------------


def strict_matmul(a, b):
    if a.shape[-1] != b.shape[0]:
        raise ValueError(f"cannot multiply {tuple(a.shape)} by {tuple(b.shape)}")
    return a @ b


@case((r(2, 3), r(3, 2)), (r(2, 3), r(2, 3)))
def falls_back(a, b):
    try:
        y = strict_matmul(a, b)
    except ValueError as error:
        logger.info("falling back: %s", error)
        y = a @ b.T
    else:
        y = y + 1
    finally:
        y = y * 2
    return y


@case((r(6, 4),), (r(9, 4),))
def batches(x):
    def chunks(items, size):
        it = iter(items)
        while chunk := list(itertools.islice(it, size)):
            yield chunk

    out = collections.defaultdict(list)
    for i, rows in enumerate(chunks(x.unbind(0), 4)):
        out[i % 2].append(torch.stack(rows).sum(0))
    return {key: torch.stack(value) for key, value in sorted(out.items())}


@case((r(2, 3, 8, 8),), (r(2, 3, 8, 8),))
class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [3, 4, 5]
        self.stages = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in itertools.pairwise(widths))
        self.laterals = nn.ModuleDict({f"p{i}": nn.Conv2d(w, 4, 1) for i, w in enumerate(widths)})

    def forward(self, x):
        maps = [x]
        for stage in self.stages:
            maps.append(stage(maps[-1]).relu_())
        laterals = [self.laterals[f"p{i}"](m) for i, m in enumerate(maps)]
        for i in range(len(laterals) - 1, 0, -1):
            laterals[i - 1] = laterals[i - 1] + F.interpolate(laterals[i], size=laterals[i - 1].shape[-2:])
        return collections.OrderedDict((f"p{i}", m) for i, m in enumerate(laterals))


@case((r(4, 3), r(4, 3)), (r(5, 3), r(5, 3)))
def contrastive(a, b):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.t() / np.sqrt(0.07)
    labels = torch.arange(len(a))
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    with torch.no_grad():
        accuracy = (logits.argmax(1) == labels).float().mean()
    assert torch.isfinite(loss), "loss diverged"
    return types.SimpleNamespace(loss=loss, accuracy=accuracy).__dict__


@case((r(3, 4),), (r(3, 4),))
def numpy_constants(x):
    anchors = np.array([[10, 13], [16, 30]], dtype=np.float32) / 32
    grid = np.stack(np.meshgrid(np.arange(2), np.arange(2)), -1).reshape(-1, 2)
    scale = np.float32(1.0) / np.sqrt(np.prod(x.shape))
    return x * float(scale), torch.from_numpy(anchors) * 2, torch.tensor(grid) + 1, int(np.ceil(x.shape[0] / 2))


@case((r(2, 4),), (r(2, 4),))
def copies_config(x):
    config = {"layers": [{"dim": 4, "act": "relu"}, {"dim": 4, "act": "tanh"}]}
    mine = copy.deepcopy(config)
    for layer in mine["layers"]:
        layer["act"] = layer["act"].upper()
        x = getattr(torch, layer["act"].lower())(x) * layer["dim"]
    return x, mine, config == mine


class Kind(enum.Enum):
    TRAIN = 1


@case((r(2, 3),), (r(4, 3),), (r(6, 3),))
def logs_values(x):
    n = x.size(0)
    logger.warning("%d rows, %s, %r, %5.2f, %d, %s %r", n, x.shape, [n], n / 2, np.int64(3), Kind.TRAIN, {"a": x.dtype})
    print("rows:", n, n / 2, sep=" ")
    return x + n
