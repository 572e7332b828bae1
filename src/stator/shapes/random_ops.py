"""Draws whose bounds are 0-d tensors; see `scalar_ops`.

Compilers do not look into the two operations that draw: on tensors with data they are the calls that eager makes, so
that the same numbers are drawn from the same generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from stator.shapes.scalar_ops import OPS, added, into, named

LIBRARY = torch.library.Library("stator", "FRAGMENT")
TAGS = (torch.Tag.nondeterministic_seeded,)


def _drawn(name: str, like: Tensor, numbers: Sequence[Tensor]) -> Tensor:
    """What the method of this name would fill the tensor with."""
    made = _like(like)
    filled: Tensor = getattr(made, name)(*(number.item() for number in numbers))
    return filled


def _dropped(like: Tensor, p: Tensor) -> Tensor:
    """What dropout multiplies a tensor with; nothing is drawn where eager would not."""
    rate = p.item()
    made = torch.empty_like(like)
    if made.numel() == 0 or rate in (0.0, 1.0):
        return made.fill_(1.0 - rate)
    return made.bernoulli_(1.0 - rate).div_(1.0 - rate)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


for _name, _parameters, _run, _fake in (
    ("drawn", "str name, Tensor like, Tensor[] numbers", _drawn, lambda name, like, numbers: _like(like)),
    ("dropped", "Tensor like, Tensor p", _dropped, lambda like, p: torch.empty_like(like)),
):
    LIBRARY.define(f"{_name}({_parameters}) -> Tensor", tags=TAGS)
    LIBRARY.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"stator::{_name}", _fake, lib=LIBRARY)


def _number(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((), value, dtype=torch.float64)


def _draw(name: str, like: Tensor, *numbers: Any) -> Tensor:
    made: Tensor = torch.ops.stator.drawn.default(name, like.detach(), [_number(number) for number in numbers])
    return made


def _fills(name: str, parameters: str, **defaults: float) -> None:
    """A method that fills a tensor with random numbers."""

    def formula(x: Tensor, *given: Any) -> Tensor:
        numbers = [*given, *list(defaults.values())[len(given) :]]
        return x.copy_(_draw(name, x, *numbers))

    call = getattr(Tensor, name)
    OPS[call] = added(f"{name}drawn", call, f"self {parameters}", parameters, formula)


_fills("uniform_", "from to", low=0.0, high=1.0)
_fills("normal_", "mean std", mean=0.0, std=1.0)
_fills("bernoulli_", "p", p=0.5)
_fills("exponential_", "lambd", lambd=1.0)
_fills("cauchy_", "median sigma", median=0.0, sigma=1.0)
_fills("log_normal_", "mean std", mean=1.0, std=2.0)
_fills("geometric_", "p")


def _normal(mean: Any, std: Any, size: Any) -> Tensor:
    return _draw("normal_", torch.empty(size), mean, std)


def _dropout(x: Tensor, p: Any = 0.5, training: Any = True) -> Tensor:
    if not training:
        return x
    return x * torch.ops.stator.dropped.default(x.detach(), _number(p))


def _dropped_channels(x: Tensor, p: Any, train: Any) -> Tensor:
    if not train or x.numel() == 0:
        return x
    channels = x.new_empty((*x.shape[:2], *[1] * (x.dim() - 2)))
    return x * torch.ops.stator.dropped.default(channels, _number(p))


def _alpha_dropped(x: Tensor, p: Any, noise: Tensor) -> Tensor:
    """What is dropped becomes the least value of `selu`; mean and variance stay."""
    least = 1.7580993408473766
    factor = 1 / torch.sqrt((least * least * p + 1) * (1 - p))
    shift = (noise - 1) * (least * factor).to(x.dtype) + (least * factor * p).to(x.dtype)
    return x * (noise * factor.to(x.dtype)) + shift


def _alpha_dropout(x: Tensor, p: Any, train: Any) -> Tensor:
    return _alpha_dropped(x, p, _draw("bernoulli_", torch.empty_like(x), 1 - p)) if train else x


def _alpha_dropped_channels(x: Tensor, p: Any, train: Any) -> Tensor:
    if not train:
        return x
    channels = x.new_empty((*x.shape[:2], *[1] * (x.dim() - 2)))
    return _alpha_dropped(x, p, _draw("bernoulli_", channels, 1 - p))


def _around(mean: Any, std: Any) -> Tensor:
    """`normal` of a tensor and a number; gradients are zero."""
    if mean.dim():
        given, made = mean, _draw("normal_", mean, 0.0, std) + mean
    else:
        given, made = std, _draw("normal_", std, 0.0, 1.0) * std + mean.to(std.dtype)
    return torch.where(torch.ones_like(made, dtype=torch.bool), made.detach(), given)


NORMAL = {  # by which one is the number; the tensor has dimensions
    name: added(f"normal_of_{name}", torch.normal, "mean std", name, _around) for name in ("mean", "std")
}
OPS |= {row.function: row for row in NORMAL.values()}
OPS[torch.normal] = added("normal_drawn", torch.normal, "mean std size", "mean std", _normal)
for _owner in (torch, Tensor):
    OPS[_owner.bernoulli] = added(
        "bernoulli_drawn",
        named(torch.bernoulli, "input p", "p"),
        "input p",
        "p",
        lambda x, p: _draw("bernoulli_", torch.empty_like(x), p),
    )
for _call, _training, _formula in (
    (torch.nn.functional.dropout, "training", _dropout),
    (torch.dropout, "train", _dropout),
    (torch.feature_dropout, "train", _dropped_channels),
    (torch.alpha_dropout, "train", _alpha_dropout),
    (torch.feature_alpha_dropout, "train", _alpha_dropped_channels),
):
    _row = added(f"{_call.__name__}_{_training}_drawn", _call, f"input p {_training}", "p", _formula)
    OPS[_call] = _row._replace(accepts=lambda p: p != 0.0 and p != 1.0)  # 0.0 gives the tensor itself
for _call, _formula in ((torch.dropout_, _dropout), (torch.feature_dropout_, _dropped_channels)):
    OPS[_call] = added(
        f"{_call.__name__}drawn",
        _call,
        "input p train",
        "p",
        lambda x, p, train, formula=_formula: into(x, formula, p, train),
    )
