"""Python styles: registries, mixins, outputs as classes, dispatch, closures, generators, subclasses."""

from __future__ import annotations

import abc
import contextlib
import copy
import enum
import functools
import inspect
import itertools
import operator
import re
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Optional, Union

import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import built, case, r

_entrypoints: dict[str, Callable[..., Any]] = {}


def register_model(fn: Any) -> Any:
    _entrypoints[fn.__name__] = fn
    return fn


@register_model
def tiny(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    return nn.Linear(**{"in_features": 3, "out_features": 2, **kwargs})


def create_model(name: str, **kwargs: Any) -> nn.Module:
    if name not in _entrypoints:
        raise RuntimeError(f"Unknown model ({name})")
    return _entrypoints[name](**{k: v for k, v in kwargs.items() if v is not None})


@built((r(2, 3),), (r(3, 3),))
def timm_registry() -> nn.Module:
    return create_model("tiny", out_features=4, bias=None)


class ModelOutput(OrderedDict):
    """Fields of a dataclass as an ordered dictionary, by key, by index, by attribute."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None:
                self[f.name] = value

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, str):
            return dict(self.items())[k]
        return self.to_tuple()[k]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[k] for k in self.keys())


@dataclass
class EncoderOutput(ModelOutput):
    last_hidden_state: Any = None
    hidden_states: Optional[tuple[Any, ...]] = None
    attentions: Optional[tuple[Any, ...]] = None


@dataclass(frozen=True)
class Config:
    hidden: int = 4
    layers: int = 2
    act: str = "gelu"
    extra: dict[str, Any] = field(default_factory=dict)


ACT2FN = {"gelu": F.gelu, "relu": nn.ReLU(), "swish": lambda x: x * x.sigmoid(), "tanh": torch.tanh}


@case((r(2, 3, 4),), (r(1, 5, 4), True), (r(2, 3, 4), True, False), backward=True)
class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = Config(act="swish")
        self.layer = nn.ModuleList([nn.Linear(4, 4) for _ in range(self.config.layers)])
        self.act = ACT2FN[self.config.act]

    def forward(
        self, x: Any, output_hidden_states: Optional[bool] = None, return_dict: Optional[bool] = None
    ) -> Union[tuple[Any, ...], EncoderOutput]:
        return_dict = return_dict if return_dict is not None else True
        states: Any = () if output_hidden_states else None
        for i, layer_module in enumerate(self.layer):
            if output_hidden_states:
                states = states + (x,)
            x = self.act(layer_module(x))
        if not return_dict:
            return tuple(v for v in [x, states] if v is not None)
        return EncoderOutput(last_hidden_state=x, hidden_states=states)


@case((r(2, 4),), (r(3, 4),))
class Wrapper(nn.Module):
    """Reads the output of another model in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x: Any) -> Any:
        out = self.encoder(x, output_hidden_states=True)
        first = out[0]
        assert first is out.last_hidden_state is out["last_hidden_state"]
        out.attentions = (first.mean(),)
        return out, len(out), list(out), out.to_tuple()[1:], "hidden_states" in out, asdict(replace(Config(), layers=9))


class SaveMixin:
    saved: Any = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward(*args, **kwargs)  # type: ignore[misc]
        self.saved = out.detach()
        return out


class ScaleMixin:
    scale = 2.0

    def forward(self, x: Any, *args: Any, scale: Optional[float] = None, **kwargs: Any) -> Any:
        return super().forward(x, *args, **kwargs) * (self.scale if scale is None else scale)  # type: ignore[misc]


class Base(nn.Module, abc.ABC):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    @abc.abstractmethod
    def activation(self, x: Any) -> Any: ...

    def forward(self, x: Any) -> Any:
        return self.activation(self.fc(x))


@case((r(2, 4),), (r(3, 4),), backward=True)
class Mixed(SaveMixin, ScaleMixin, Base):
    def activation(self, x: Any) -> Any:
        return torch.sigmoid(x)


@functools.singledispatch
def encode(value: Any) -> Any:
    raise TypeError(f"cannot encode {type(value)}")


@encode.register(torch.Tensor)
def _(value: Any) -> Any:
    return value.float().mean().view(1)


@encode.register(int)
@encode.register(float)
def _(value: Any) -> Any:
    return torch.tensor([float(value)])


@encode.register(list)
@encode.register(tuple)
def _(value: Any) -> Any:
    return torch.cat([encode(v) for v in value])


@case(([r(2), 3, (1.5, r(1))],), ([r(4), 3, (1.5, r(1))],), (["text"],))
def dispatched(value: Any) -> Any:
    return encode(value).sum()


@functools.lru_cache(maxsize=None)
def frequency_table(n: int) -> tuple[float, ...]:
    return tuple(1.0 / 10 ** (i / n) for i in range(n))


@functools.lru_cache
def cached_tensor(n: int) -> Any:
    return torch.arange(n).float()


@case((r(2, 4),), (r(2, 3),), (r(2, 4),))
def lru_cached(x: Any) -> Any:
    n = x.shape[-1]
    return x * torch.tensor(frequency_table(n)) + cached_tensor(n)


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"

    def reduce(self, x: Any) -> Any:
        return getattr(torch, self.value)(x, dim=-1)


class Flags(enum.IntFlag):
    A = 1
    B = 2


@case((r(2, 4), Mode.SUM, "relu"), (r(2, 4), Mode.MEAN, "tanh"), (r(2, 4), "sum", None))
def enums_and_match(x: Any, mode: Any, act: Any) -> Any:
    match act:
        case "relu" | "gelu" as name:
            x = getattr(F, name)(x)
        case str():
            x = getattr(torch, act)(x)
        case None:
            pass
    if isinstance(mode, str):
        mode = Mode(mode)
    flags = Flags.A | (Flags.B if mode is Mode.SUM else 0)
    return mode.reduce(x), mode, Flags.B in flags, flags


@case((r(2, 3, 4), "b h w -> b (h w)"), (r(2, 3, 4), "b h w -> w b h"), (r(1, 2, 3), "b h w -> b (w h)"))
def rearrange(x: Any, pattern: str) -> Any:
    """einops in small: a pattern is parsed, sizes looked up by name."""
    left, right = (side.strip() for side in pattern.split("->"))
    names = left.split()
    sizes = dict(zip(names, x.shape))
    groups = [g[1:-1].split() if g.startswith("(") else [g] for g in re.findall(r"\([^)]*\)|\S+", right)]
    flat = list(itertools.chain.from_iterable(groups))
    if set(flat) != set(names):
        raise ValueError(f"Identifiers only on one side: {set(flat) ^ set(names)}")
    y = x.permute([names.index(n) for n in flat])
    return y.reshape([functools.reduce(operator.mul, (sizes[n] for n in g), 1) for g in groups])


@case((r(4, 3), 2), (r(5, 3), 2))
def generators(x: Any, size: int) -> Any:
    def chunks(t: Any) -> Any:
        total = 0
        for i in range(0, len(t), size):
            sent = yield t[i : i + size]
            total += sent or 0
        return total

    def scaled(t: Any) -> Any:
        total = yield from chunks(t * 2)
        yield torch.full((1, 3), float(total))

    first, *rest = scaled(x)
    total = sum(c.sum() for c in scaled(x) if c.shape[0])
    pairs = [a[:1] + b[:1] for a, b in itertools.pairwise(scaled(x))]
    gen = chunks(x)
    head = next(gen)
    gen.close()
    return first, rest, total, pairs, head, max(scaled(x), key=lambda c: c.numel()).shape


class ScaledTensor(torch.Tensor):
    """Counts what is done with it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, ScaledTensor):
            result.tag = getattr(args[0], "tag", 0) + 1
        return result


@case((r(2, 2),), (r(3, 2),))
def tensor_subclass(x: Any) -> Any:
    t = x.as_subclass(ScaledTensor)
    y = (t * 2).relu()
    return y, type(y).__name__, y.tag, y.as_subclass(torch.Tensor).sum()


class LazyDict(dict):
    def __missing__(self, key: str) -> Any:
        self[key] = value = torch.full((2,), float(len(key)))
        return value


class AttrDict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@case((r(2),), (r(2),))
def dict_subclasses(x: Any) -> Any:
    cfg = AttrDict(lr=0.1, net=AttrDict(width=2))
    cfg.net.depth = 3
    lazy = LazyDict()
    y = x * cfg.lr * cfg.net.depth + lazy["abc"] + lazy["abc"]
    merged = {**cfg.net, **{"width": 5}} | {"z": y}
    return y, lazy, merged, types.SimpleNamespace(a=y, **cfg.net), cfg


@built((r(2, 4),), (r(3, 4),), backward=True)
def containers() -> nn.Module:
    class Containers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seq = nn.Sequential(
                OrderedDict([("fc1", nn.Linear(4, 4)), ("act", nn.ReLU()), ("fc2", nn.Linear(4, 4))])
            )
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(1) * i) for i in range(3)])
            self.table = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(4)), "gain": nn.Parameter(torch.ones(4))})
            self.choices = nn.ModuleDict({"lin": nn.Linear(4, 4), "id": nn.Identity()})
            self.plain = [nn.Linear(4, 4)]

        def forward(self, x: Any) -> Any:
            x = self.seq[:2](x) + self.seq.fc2(x) + self.seq[-1](x)
            for i, s in enumerate(self.scales[1:]):
                x = x * s + i
            for key, layer in self.choices.items():
                x = layer(x) if key in self.choices and key != "missing" else x
            x = x * self.table["gain"] + self.table.bias
            names = [n for n, _ in self.named_parameters()][:3]
            return self.plain[0](x), names, len(self.seq), [type(m).__name__ for m in self.children()]

    return Containers()


@case((r(2, 4),), (r(2, 4),))
class GetAttr(nn.Module):
    """__getattr__ that goes on to a wrapped module, __setattr__ that notices, properties with setters."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(4, 3)
        self._temperature = 1.0
        self.changes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name.startswith("t_"):
            self.changes.append(name)

    @property
    def temperature(self) -> float:
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self._temperature = max(value, 0.1)

    def forward(self, x: Any) -> Any:
        self.temperature = self.temperature / 2
        self.t_last = x.mean().detach()
        return F.linear(x, self.weight, self.bias) / self.temperature, self.out_features


@case((r(2, 4),), (r(3, 4),))
def closures_and_partials(x: Any) -> Any:
    def make(scale: float) -> Any:
        def inner(t: Any, *, shift: float = 0.0) -> Any:
            return t * scale + shift

        return inner

    pipeline = [make(2.0), functools.partial(make(3.0), shift=1.0), operator.methodcaller("relu"), torch.tanh, F.silu]
    y = functools.reduce(lambda acc, fn: fn(acc), pipeline, x)
    fs = [lambda t, i=i: t + i for i in range(3)]
    return y, sum(f(x) for f in fs), list(map(operator.attrgetter("ndim"), [x, y])), pipeline[1].keywords


class timed_scope(contextlib.ContextDecorator):
    depth = 0

    def __enter__(self) -> Any:
        type(self).depth += 1
        return self

    def __exit__(self, *exc: Any) -> bool:
        type(self).depth -= 1
        return exc[0] is ZeroDivisionError


@timed_scope()
def decorated(x: Any) -> Any:
    return x + timed_scope.depth


@case((r(2, 4),), (r(3, 4),))
def context_managers(x: Any) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.callback(lambda: None)
        scope = stack.enter_context(timed_scope())
        y = decorated(x) * scope.depth
    with timed_scope():
        y = y / 2
        1 // (timed_scope.depth - 1)
    with contextlib.suppress(KeyError), contextlib.nullcontext(3) as three:
        y = y * three
        {}["missing"]
    with torch.inference_mode():
        z = x * 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        noise = torch.rand(2)
    return y, z.clone(), noise, timed_scope.depth


@case((r(2, 4),), (r(3, 4),))
class Introspective(nn.Module):
    """inspect, hasattr, callable, isinstance over modules, is_scripting, version checks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.0)])

    def accepted(self, fn: Any) -> list[str]:
        return [p.name for p in inspect.signature(fn).parameters.values() if p.default is inspect.Parameter.empty]

    def forward(self, x: Any, **kwargs: Any) -> Any:
        if torch.jit.is_scripting() or torch.jit.is_tracing():
            return x
        if tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2]) < (1, 6):
            raise RuntimeError("too old")
        for layer in self.layers:
            if isinstance(layer, (nn.Linear, nn.LayerNorm)) and hasattr(layer, "weight") and callable(layer):
                x = layer(x)
        counts = {type(m).__name__: sum(p.numel() for p in m.parameters()) for m in self.modules()}
        names = self.accepted(self.accepted)
        return x, counts, names, inspect.isfunction(type(self).forward), self.layers[0].extra_repr()


@case((r(2, 4),), (r(3, 4),))
class CloningForward(nn.Module):
    """deepcopy in forward, modules made in forward, state_dict and load_state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        clone = copy.deepcopy(self.fc)
        with torch.no_grad():
            clone.weight.mul_(2)
        fresh = nn.Linear(4, 4)
        fresh.load_state_dict(self.fc.state_dict())
        nn.init.constant_(fresh.bias, 0.5)
        norm = nn.LayerNorm(x.shape[-1], elementwise_affine=False)
        return clone(x) - self.fc(x) + norm(fresh(x)).detach(), copy.copy({"a": [x]})


@dataclass
class Batch:
    images: Any
    labels: Optional[Any] = None
    meta: list[dict[str, Any]] = field(default_factory=list)

    def to(self, dtype: Any) -> Batch:
        return replace(self, images=self.images.to(dtype))

    def __len__(self) -> int:
        return len(self.images)


@case((Batch(r(2, 3)),), (Batch(r(3, 3), r(3), [{"id": 1}]),))
class DataclassIO(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, batch: Any) -> Any:
        b = batch.to(torch.float64).to(torch.float32)
        logits = self.fc(b.images)
        batch.meta.append({"n": len(batch), "logits": logits.detach()})
        if b.labels is None:
            return replace(b, images=logits)
        return Batch(
            images=logits, labels=b.labels.round(), meta=[asdict(m) if not isinstance(m, dict) else m for m in b.meta]
        )


@case((r(2, 4), [1, 2]), (r(3, 4), [3]), (r(3, 4), []))
def comprehension_soup(x: Any, ks: list[int]) -> Any:
    outs = {f"k{k}": [x.roll(s, -1) for s in range(k)] for k in ks}
    flat = [t for ts in outs.values() for t in ts if t.numel()]
    total = sum(flat) if flat else x.new_zeros(())
    a, *b = (total, *flat)
    (n := len(flat))
    mapping = dict(zip(map(str, range(n)), flat))
    return a, len(b), any(t.ndim > 1 for t in flat), mapping, [i for i, t in enumerate(flat) if t is not total], {*ks}


class Meta(type):
    registry: dict[str, type] = {}

    def __new__(mcs, name: str, bases: Any, namespace: Any) -> Any:
        cls = super().__new__(mcs, name, bases, namespace)
        mcs.registry[name.lower()] = cls
        return cls


class Loss(metaclass=Meta):
    weight = 1.0

    def __call__(self, *args: Any) -> Any:
        return self.weight * self.compute(*args)

    def compute(self, *args: Any) -> Any:
        raise NotImplementedError


class MSE(Loss):
    def compute(self, a: Any, b: Any) -> Any:
        return F.mse_loss(a, b)


class Huber(Loss):
    weight = 0.5

    def compute(self, a: Any, b: Any) -> Any:
        return F.smooth_l1_loss(a, b)


@case((r(2, 4), r(2, 4), "mse+huber"), (r(2, 4), r(2, 4), "huber"), (r(2, 4), r(2, 4), "loss"))
def loss_registry(a: Any, b: Any, spec: str) -> Any:
    """Losses from a string, by a metaclass's registry; the third call raises NotImplementedError."""
    terms = {name: Meta.registry[name]() for name in spec.split("+")}
    values = {name: term(a, b) for name, term in terms.items()}
    return sum(values.values()), values


@case((r(2, 3), 3), (r(2, 3), 5))
def recursion(x: Any, depth: int) -> Any:
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def nest(t: Any, d: int) -> Any:
        return t if d == 0 else [nest(t * d, d - 1), d]

    return nest(x, depth), x * fib(depth)


class Vector:
    """Operators on objects that hold tensors."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __add__(self, other: Any) -> Vector:
        return Vector(self.data + (other.data if isinstance(other, Vector) else other))

    __radd__ = __add__

    def __matmul__(self, other: Vector) -> Any:
        return self.data @ other.data

    def __getitem__(self, key: Any) -> Vector:
        return Vector(self.data[key])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and torch.equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Any:
        return (Vector(row) for row in self.data)

    def __repr__(self) -> str:
        return f"Vector({tuple(self.data.shape)})"


@case((r(3),), (r(4),))
def operators(x: Any) -> Any:
    v = Vector(x)
    w = sum([v, v + 1, 2 + v])
    return w, v @ w, w[1:], repr(w), v == Vector(x), [e.data for e in v]
