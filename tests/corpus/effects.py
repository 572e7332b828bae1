"""Effects: programs that print, log, warn, count, keep state, read time, and touch their inputs."""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import time
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import built, case, ints, r

logger = logging.getLogger(__name__)
CONFIG: dict[str, Any] = {"width": 4, "act": "relu", "debug": True, "calls": 0}
STATS: Any = defaultdict(list)
step_count = 0


@case((r(2, 4),), (r(3, 4),))
class Verbose(nn.Module):
    """print with sizes, f-strings with values, logging, stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        print("input:", x.shape, x.dtype, end="\n\n")
        y = self.fc(x)
        logger.info("mean %.4f of %s", y.mean().item(), tuple(y.size()))
        print(f"max={y.max():.3f}", y[0], sep="|", file=sys.stderr)
        if torch.isnan(y).any():
            raise RuntimeError("nan")
        logger.warning("done")
        return y


@case((r(2, 4),), (r(2, 4),))
def warns(x: Any) -> Any:
    warnings.warn("deprecated: use y", DeprecationWarning, stacklevel=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("hidden", stacklevel=1)
        y = x * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn("recorded", stacklevel=1)
    return y, len(caught), str(caught[0].message)


@case((r(2, 4),), (r(2, 4),), globals=("CONFIG", "STATS", "step_count"))
def global_state(x: Any) -> Any:
    """A configuration dictionary, statistics by name, a global counter."""
    global step_count
    step_count += 1
    CONFIG["calls"] += 1
    act = {"relu": F.relu, "gelu": F.gelu}[CONFIG["act"]]
    y = act(x) * CONFIG.get("width", 1)
    if CONFIG["debug"]:
        STATS["norm"].append(y.norm().item())
        STATS[f"step{step_count}"] = tuple(y.shape)
    return y


class Counting(nn.Module):
    instances = 0
    forwards: Any = Counter()

    def __init__(self) -> None:
        super().__init__()
        type(self).instances += 1
        self.number = Counting.instances


@case((r(2, 4),), (r(3, 4),))
class Windowed(Counting):
    """Running windows: deque, OrderedDict as a cache with eviction, moving averages as floats."""

    def __init__(self) -> None:
        super().__init__()
        self.history: Any = deque(maxlen=2)
        self.cache: Any = OrderedDict()
        self.avg = 0.0
        self.best = float("inf")

    def forward(self, x: Any) -> Any:
        key = tuple(x.shape)
        if key in self.cache:
            self.cache.move_to_end(key)
        else:
            self.cache[key] = torch.ones(key)
            if len(self.cache) > 2:
                self.cache.popitem(last=False)
        loss = (x * self.cache[key]).pow(2).mean()
        self.avg = 0.9 * self.avg + 0.1 * loss.item()
        self.history.append(loss.detach())
        if loss < self.best:
            self.best = loss.item()
        return sum(self.history) / len(self.history), self.avg


@case((r(2, 4),), (r(3, 4),))
class Timed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.elapsed: list[bool] = []

    @contextlib.contextmanager
    def timer(self, name: str) -> Any:
        start = time.time()
        try:
            yield
        finally:
            self.elapsed.append(time.time() - start >= 0)

    def forward(self, x: Any) -> Any:
        with self.timer("fc"):
            x = self.fc(x)
        t0 = time.perf_counter()
        x = x.relu()
        assert time.perf_counter() >= t0
        return x


@case((r(3, 4), r(3, 4)), (r(2, 4), r(2, 4)))
def writes_inputs(x: Any, y: Any) -> Any:
    """In-place operations on arguments and on views of them."""
    x.add_(1)
    x[0] = 0
    x[:, 1:3] *= 2
    y.t()[0].fill_(3)
    row = y[1]
    row -= x[1]
    x.data.clamp_(max=2.0)
    y.copy_(y.flip(0))
    return row, x.view(-1)[::2]


@case(({"a": r(2, 2), "meta": {"n": 1}},), ({"a": r(3, 2), "meta": {"n": 5}, "extra": [r(1)]},))
def writes_dicts(batch: Any) -> Any:
    """A batch dictionary that layers add to and pop from."""
    batch["b"] = batch.pop("a") * 2
    batch["meta"]["n"] += 1
    batch.setdefault("extra", []).append(batch["b"].sum())
    for key in list(batch):
        if isinstance(batch[key], torch.Tensor):
            batch[key + "_mean"] = batch[key].mean()
    return batch, {k: v.shape for k, v in batch.items() if torch.is_tensor(v)}


@case((r(2, 3), "a"), (r(2, 3), "b"), (r(2, 3), "zzz"))
class Fallbacks(nn.Module):
    """try/except around operations and look-ups; the errors are part of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.errors: list[str] = []

    def forward(self, x: Any, name: str) -> Any:
        try:
            layer = getattr(self, name)
        except AttributeError as error:
            self.errors.append(str(error))
            layer = nn.Identity()
        try:
            y = layer(x).view(7, 11)
        except RuntimeError as error:
            self.errors.append(type(error).__name__)
            y = layer(x)
        try:
            y = torch.cat([y, torch.ones(1, 1, 1)])
        except (RuntimeError, ValueError):
            pass
        else:
            self.errors.append("never")
        finally:
            y = y + 1
        try:
            value = {"a": 1}[name]
        except KeyError:
            value = -1
        if name == "zzz":
            raise NotImplementedError(f"mode {name} with {x.sum().item():.2f}")
        return y * value


@case((r(2, 4),), (r(3, 4),))
class Debugging(nn.Module):
    """assert on values, named tensors in a debug list, detect_anomaly-like checks."""

    def check(self, name: str, t: Any) -> Any:
        assert torch.isfinite(t).all(), f"{name} is not finite"
        assert t.abs().max() < 100, (name, t.max())
        return t

    def forward(self, x: Any) -> Any:
        x = self.check("x", x)
        x = self.check("exp", torch.exp(x.clamp(max=3)))
        assert x.dim() == 2 and (x >= 0).all().item()
        return x.log1p()


@built((r(2, 2),), (r(2, 2),))
def nonlocal_counter() -> Any:
    calls = 0
    history: list[Any] = []

    def bump(x: Any) -> Any:
        nonlocal calls
        calls += 1
        history.append(x.mean())
        return x * calls

    def run(x: Any) -> Any:
        y = bump(bump(x))
        if y.sum() > 0:
            history.clear()
        return y, len(history), calls

    return run


@case((r(3, 4),), (r(3, 4),), (r(5, 4),))
class RunningNorm(nn.Module):
    """Statistics in buffers, a step counter in a tensor, lazy initialisation by data (ActNorm)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", None)
        self.loc = nn.Parameter(torch.zeros(1, 4))
        self.scale = nn.Parameter(torch.ones(1, 4))

    def initialize(self, x: Any) -> None:
        with torch.no_grad():
            mean, std = x.mean(0, keepdim=True), x.std(0, keepdim=True)
            self.loc.data.copy_(-mean)
            self.scale.data.copy_(1 / (std + 1e-6))

    def forward(self, x: Any) -> Any:
        if self.training and self.initialized.item() == 0:
            self.initialize(x)
            self.initialized.fill_(1)
        self.steps += 1
        self.mean = x.mean(0).detach() if self.mean is None else self.mean.lerp(x.mean(0).detach(), 0.1)
        return self.scale * (x + self.loc), torch.log(torch.abs(self.scale)).sum()


@case((r(3, 4), ints(2, 3)), (r(4, 4), ints(2, 4)))
class Metrics(nn.Module):
    """AverageMeter objects, accuracy with topk, confusion matrix through numpy."""

    class AverageMeter:
        def __init__(self) -> None:
            self.reset()

        def reset(self) -> None:
            self.val = self.avg = self.sum = self.count = 0

        def update(self, val: Any, n: int = 1) -> None:
            self.val = val
            self.sum += val * n
            self.count += n
            self.avg = self.sum / self.count

        def __str__(self) -> str:
            return f"{self.val:.2f} ({self.avg:.2f})"

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.top1 = self.AverageMeter()
        self.confusion = np.zeros((3, 3), dtype=np.int64)

    def forward(self, x: Any, target: Any) -> Any:
        output = self.fc(x)
        with torch.no_grad():
            _, pred = output.topk(2, 1, True, True)
            correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
            acc = correct[:1].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / x.size(0))
            self.top1.update(acc.item(), x.size(0))
            for t, p in zip(target.cpu().numpy(), pred[:, 0].cpu().numpy()):
                self.confusion[t, p] += 1
        print(self.top1)
        return output, str(self.top1)


@case((r(4, 8),), (r(6, 8),), (r(9, 8),), (r(5, 8),), backward=True)
class Siamese(nn.Module):
    """One encoder called in three places, with a break deep inside; a copy of what it gave."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.scales: list[float] = []

        def forward(self, x: Any) -> Any:
            y = self.linear(x).relu() * 2
            largest = sorted([y.detach().abs().sum().item(), 1.0])[-1]
            self.scales.append(largest)
            return y.sin() / largest

    def __init__(self) -> None:
        super().__init__()
        self.encoder = self.Encoder()
        self.head = nn.Linear(16, 1)

    def forward(self, x: Any) -> Any:
        a, b, c = self.encoder(x), self.encoder(x.flip(0)), self.encoder(x * 2)
        kept = copy.deepcopy(c.detach()).add_(1)
        return self.head(torch.cat([a, b], -1)) + c.mean(), kept
