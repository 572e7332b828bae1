"""More operations whose numbers are 0-d tensors, with the formulas that compilers trace; see `scalar_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from stator.shapes.scalar_ops import OPS, added, fit, hardtanh, into, met, named, scaled, softplus, widely

BUILTIN: Any = torch._C._nn


def _add(
    call: Any,
    parameters: str,
    numbers: str,
    formula: Callable[..., Any],
    keywords: str = "",
    key: Any = None,
    accepts: Callable[[Any], bool] | None = None,
) -> None:
    label = f"{call.__name__.strip('_')}{'_' if call.__name__.endswith('_') else ''}_with_numbers"
    row = added(label, named(call, parameters, keywords), parameters, numbers, formula)
    OPS[call if key is None else key] = row._replace(accepts=accepts)


def _both(
    name: str, owner: Any, parameters: str, numbers: str, formula: Callable[..., Any], keywords: str = ""
) -> None:
    """A function and its form in place."""
    _add(getattr(owner, name), parameters, numbers, formula, keywords)
    if in_place := getattr(owner, f"{name}_", None):
        _add(in_place, parameters, numbers, lambda x, *rest: into(x, formula, *rest), keywords)


# ---- activations ----------------------------------------------------------------------------------


@widely
def _elu(x: Tensor, alpha: Any = 1.0, scale: Any = 1.0, inner: Any = 1.0) -> Tensor:
    small = torch.expm1(x.clamp_max(0) * met(x, inner)) * met(x, alpha)
    return torch.where(x > 0, x, small) * met(x, scale)


_both("leaky_relu", BUILTIN, "self slope", "slope", lambda x, s: torch.where(x > 0, x, x * met(x, s)))
_both("elu", BUILTIN, "self alpha scale input_scale", "alpha scale input_scale", _elu)
_add(BUILTIN.softplus, "self beta threshold", "beta threshold", softplus)
_both("hardtanh", BUILTIN, "self min_val max_val", "min_val max_val", hardtanh)
_both(
    "threshold", torch, "input threshold value", "threshold value",
    lambda x, t, v: torch.where(x > met(x, t), x, met(x, v)),
)  # fmt: skip


# ---- places ---------------------------------------------------------------------------------------


def _scattered(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return x.scatter(dim, index, value.to(x.dtype).expand(index.shape))


def _added_at(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    return x.index_add(dim, index, source * met(source, alpha))


def _padded(x: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    inside = F.pad(torch.ones_like(x, dtype=torch.bool), pad, value=False)
    return torch.where(inside, F.pad(x, pad), value.to(x.dtype))


for _owner in (torch, torch.Tensor):
    _add(_owner.scatter, "self dim index value", "value", _scattered)
    _add(_owner.index_add, "self dim index source alpha", "alpha", _added_at, "alpha", (_owner.index_add, "alpha"))
_add(
    torch.Tensor.scatter_, "self dim index value", "value",
    lambda x, dim, index, value: x.scatter_(dim, index, value.to(x.dtype).expand(index.shape)),
)  # fmt: skip
_add(
    torch.Tensor.index_add_, "self dim index source alpha", "alpha",
    lambda x, dim, index, source, alpha: x.index_add_(dim, index, source * met(source, alpha)),
    "alpha", (torch.Tensor.index_add_, "alpha"),
)  # fmt: skip
_add(BUILTIN.pad, "input pad mode value", "value", _padded)


# ---- numbers --------------------------------------------------------------------------------------


def _spread(start: Any, end: Any, steps: Any, dtype: Any = None, device: Any = None) -> Tensor:
    wanted = dtype or torch.get_default_dtype()
    place = torch.arange(steps, dtype=torch.float64, device=device) / max(steps - 1, 1)
    return (start + (end - start) * place).to(wanted)


def _numbers(x: Tensor, nan: Any = None, above: Any = None, below: Any = None) -> Tensor:
    bounds = torch.finfo(x.dtype)
    made = torch.where(torch.isnan(x), met(x, 0.0 if nan is None else nan), x)
    made = torch.where(x == float("inf"), met(x, bounds.max if above is None else above), made)
    return torch.where(x == float("-inf"), met(x, bounds.min if below is None else below), made)


def _close(x: Tensor, y: Tensor, rtol: Any = None, atol: Any = None, equal_nan: Any = False) -> Tensor:
    rtol, atol = (1e-5 if rtol is None else rtol), (1e-8 if atol is None else atol)
    near = (x - y).abs() <= met(x, atol) + (y * met(x, rtol)).abs()
    near = (x == y) | (near & torch.isfinite(y))
    return near | (torch.isnan(x) & torch.isnan(y)) if equal_nan else near


def _close_call(x: Tensor, y: Tensor, rtol: Any = None, atol: Any = None, equal_nan: Any = False) -> Tensor:
    rtol, atol = (1e-5 if rtol is None else rtol), (1e-8 if atol is None else atol)
    return torch.isclose(x, y, rtol, atol, bool(equal_nan))


@widely
def _variance(x: Tensor, dim: Any = None, correction: Any = 1.0, keepdim: Any = False) -> Tensor:
    dims = tuple(range(x.dim())) if dim is None else dim
    squares = (x - x.mean(dims, keepdim=True)).square()
    count = squares.numel() / max(squares.sum(dims).numel(), 1)
    return squares.sum(dims, keepdim=bool(keepdim)) / met(x, torch.clamp_min(count - correction, 0))


def _deviation(x: Tensor, *rest: Any) -> Tensor:
    """The root of the variance; where that is zero, there is no gradient."""
    spread = _variance(x, *rest)
    flat = spread == 0
    return torch.where(flat, 0.0, torch.where(flat, 1.0, spread).sqrt())


_add(torch.linspace, "start end steps dtype device", "start end", _spread, "dtype device")
_add(torch.nan_to_num, "input nan posinf neginf", "nan posinf neginf", _numbers)
_add(torch.Tensor.nan_to_num, "input nan posinf neginf", "nan posinf neginf", _numbers)
_add(torch.rsub, "self other alpha", "alpha", lambda x, y, s: scaled(y, x, -s), "alpha", (torch.rsub, "alpha"))
_add(
    torch.trapz,
    "y dx dim",
    "dx",
    lambda y, dx, dim=None: torch.trapz(y, dim=-1 if dim is None else dim) * met(y, dx),
    "dx dim",
)
for _owner in (torch, torch.Tensor):
    OPS[_owner.isclose] = added(
        "isclose_with_numbers", _close_call, "input other rtol atol equal_nan", "rtol atol", _close
    )
    _add(_owner.var, "input dim correction keepdim", "correction", _variance, "dim correction keepdim")
    _add(
        _owner.std, "input dim correction keepdim", "correction",
        _deviation, "dim correction keepdim",
    )  # fmt: skip


# ---- losses and norms -----------------------------------------------------------------------------

_REDUCTIONS: dict[int, Callable[[Tensor], Tensor]] = {0: lambda x: x, 1: torch.mean, 2: torch.sum}


def _huber(x: Tensor, y: Tensor, reduction: int = 1, delta: Any = 1.0) -> Tensor:
    distance = (x - y).abs()
    delta = met(distance, delta)
    made = torch.where(distance <= delta, 0.5 * distance.square(), delta * (distance - 0.5 * delta))
    return _REDUCTIONS[reduction](made.to(x.dtype))


def _smooth(x: Tensor, y: Tensor, reduction: int = 1, beta: Any = 1.0) -> Tensor:
    distance = (x - y).abs()
    beta = met(distance, beta)
    inner = 0.5 * distance.square() / torch.where(beta == 0, 1.0, beta)
    return _REDUCTIONS[reduction](torch.where(distance < beta, inner, distance - 0.5 * beta))


def _ranking(x: Tensor, y: Tensor, target: Tensor, margin: Any = 0.0, reduction: int = 1) -> Tensor:
    distance = -target * (x - y)
    return _REDUCTIONS[reduction](torch.clamp_min(distance + met(distance, margin), 0))


def _hinge(x: Tensor, target: Tensor, margin: Any = 1.0, reduction: int = 1) -> Tensor:
    apart = torch.where(target == 1, 0.0, torch.clamp_min(met(x, margin) - x, 0))
    return _REDUCTIONS[reduction](torch.where(target == -1, 0.0, x) + apart)


def _triplet(
    x: Tensor, near: Tensor, far: Tensor, margin: Any = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    apart = torch.pairwise_distance(x, far, p, eps)
    if swap:
        apart = torch.minimum(apart, torch.pairwise_distance(near, far, p, eps))
    close = torch.pairwise_distance(x, near, p, eps)
    made = torch.clamp_min(met(close, margin) + close - apart, 0)
    return _REDUCTIONS[reduction](made)


def _by_group(x: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *rest: Any) -> Tensor:
    fit(x.shape[1:2], *(one.shape for one in (weight, bias) if one is not None))
    wide = (x.float() if x.dtype.itemsize < 4 else x).reshape(x.shape[0], groups, -1)
    mean = wide.mean(-1, keepdim=True)
    spread = (wide - mean).square().mean(-1, keepdim=True)
    made = ((wide - mean) * torch.rsqrt(spread + met(wide, eps))).reshape(x.shape)
    shape = (1, -1, *[1] * (x.dim() - 2))
    made = made if weight is None else made * weight.view(shape)
    return (made if bias is None else made + bias.view(shape)).to(x.dtype)


def _by_batch(
    x: Tensor, weight: Any, bias: Any, mean: Any, spread: Any, training: bool, momentum: Any, eps: Any, *rest: Any
) -> Tensor:
    if training and mean is not None and not isinstance(eps, Tensor):
        fresh = torch.zeros_like(mean), torch.ones_like(spread)
        made = torch.batch_norm(x, weight, bias, *fresh, True, 1.0, eps, *rest)
        with torch.no_grad():
            for kept, new in zip((mean, spread), fresh, strict=True):
                kept.copy_(kept.double() * (1 - momentum) + new.double() * momentum)
        return made
    fit(x.shape[1:2], *(one.shape for one in (weight, bias, mean, spread) if one is not None))
    shape, dims = (1, -1, *[1] * (x.dim() - 2)), [i for i in range(x.dim()) if i != 1]
    wide = x.float() if x.dtype.itemsize < 4 else x
    center, width = mean, spread
    if training:
        center, width = wide.mean(dims), wide.var(dims, correction=0)
        if mean is not None:
            count = wide.numel() // wide.shape[1]
            with torch.no_grad():
                share = met(wide, momentum)
                mean.copy_(mean * (1 - share) + center * share)
                spread.copy_(spread * (1 - share) + width * (count / (count - 1)) * share)
    made = (wide - center.view(shape)) * torch.rsqrt(width.view(shape) + met(wide, eps))
    made = made if weight is None else made * weight.view(shape)
    return (made if bias is None else made + bias.view(shape)).to(x.dtype)


def _cosine(x: Tensor, y: Tensor, dim: Any = None, eps: Any = 1e-8) -> Tensor:
    dim = 1 if dim is None else dim
    x, y = torch.broadcast_tensors(x, y)
    first, second = (_at_least(torch.linalg.vector_norm(z, 2, dim, True), met(z, eps)) for z in (x, y))
    return ((x / first) * (y / second)).sum(dim)


def _at_least(x: Tensor, least: Any) -> Tensor:
    """The larger one, with the gradient of x in any case."""
    return x + (torch.clamp_min(x, least) - x).detach()


def _apart(x: Tensor, y: Tensor, target: Tensor, margin: Any = 0.0, reduction: int = 1) -> Tensor:
    """`cosine_embedding_loss`."""
    tiny = 1e-12
    cosine = (x * y).sum(-1) / ((x.square().sum(-1) + tiny) * (y.square().sum(-1) + tiny)).sqrt()
    pulled, pushed = 1 - cosine, torch.clamp_min(cosine - met(cosine, margin), 0)
    made = torch.where(target == 1, pulled, 0.0) + torch.where(target == -1, pushed, 0.0)
    return _REDUCTIONS[reduction](made)


def _smoothed(
    x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignored: int = -100, smoothing: Any = 0.0
) -> Tensor:
    """`cross_entropy` with the share of other classes as a tensor."""
    dim = 0 if x.dim() == 1 else 1
    share, classes = met(x, smoothing), x.shape[dim]
    if target.is_floating_point():
        target = target * (1 - share) + share / classes
        made: Tensor = BUILTIN.cross_entropy_loss(x, target, weight, reduction, ignored, 0.0)
        return made
    right: Tensor = BUILTIN.cross_entropy_loss(x, target, weight, reduction, ignored, 0.0)
    log = torch.log_softmax(x, dim)
    shape = [1] * x.dim()
    shape[dim] = classes
    each = -(log if weight is None else log * weight.view(shape)).sum(dim)
    kept = target != ignored
    each = torch.where(kept, each, 0.0)
    if reduction != 1:
        other = each if reduction == 0 else each.sum()
    elif weight is None:
        other = each.sum() / kept.sum()
    else:
        other = each.sum() / torch.where(kept, weight[torch.where(kept, target, 0)], 0.0).sum()
    return right * (1 - share) + other * (share / classes)


def _by_instance(
    x: Tensor, weight: Any, bias: Any, mean: Any, spread: Any, own: bool, momentum: Any, eps: Any, *rest: Any
) -> Tensor:
    """`instance_norm`; averages over instances are kept of what the batch norm of one long batch finds."""
    if mean is None:
        return _by_group(x, x.shape[1], weight, bias, eps)
    if not own:
        return _by_batch(x, weight, bias, mean, spread, False, momentum, eps)
    dims = list(range(2, x.dim()))
    with torch.no_grad():
        share = met(x, momentum)
        mean.copy_(mean * (1 - share) + x.mean(dims).mean(0) * share)
        spread.copy_(spread * (1 - share) + x.var(dims).mean(0) * share)
    return _by_group(x, x.shape[1], weight, bias, eps)


def _is_share(number: Any) -> bool:
    return bool(number >= 0.0) and bool(number <= 1.0)  # else torch raises


def _quantile(skips: bool) -> Callable[..., Tensor]:
    """`quantile`, between the two elements next to the place; `nanquantile` is that of the other elements."""

    def formula(x: Tensor, q: Any, dim: Any = None, keepdim: Any = False) -> Tensor:
        flat = x.reshape(-1) if dim is None else x
        along = 0 if dim is None else dim
        ordered = flat.sort(along).values
        missing = ordered.isnan()
        last = flat.shape[along] - 1
        if skips:
            most = (last - missing.sum(along, keepdim=True)).to(x.dtype).clamp_min(0)
            place = met(x, q) * most
        else:
            place = torch.where(missing.any(along, keepdim=True), float(last), met(x, q) * last)
        below = place.floor()
        low = ordered.gather(along, below.long())
        made = torch.lerp(low, ordered.gather(along, place.ceil().long()), place - below)
        if dim is None:
            return made.reshape([1] * x.dim() if keepdim else [])
        return made if keepdim else made.squeeze(along)

    return formula


for _owner in (torch, torch.Tensor):
    for _name in ("quantile", "nanquantile"):
        _formula = _quantile(_name != "quantile")
        _add(getattr(_owner, _name), "input q dim keepdim", "q", _formula, accepts=_is_share)
_add(
    torch.instance_norm,
    "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled",
    "momentum eps",
    _by_instance,
)
_add(
    BUILTIN.cross_entropy_loss,
    "input target weight reduction ignore_index label_smoothing",
    "label_smoothing",
    _smoothed,
    accepts=_is_share,
)
_add(torch.cosine_similarity, "x1 x2 dim eps", "eps", _cosine, "dim eps")
_add(torch.cosine_embedding_loss, "input1 input2 target margin reduction", "margin", _apart)
for _owner in (torch, torch.Tensor):
    _add(
        _owner.logit,
        "input eps",
        "eps",
        lambda x, eps: torch.logit(torch.clamp(x, met(x, eps), 1 - met(x, eps))),
    )
_add(BUILTIN.huber_loss, "input target reduction delta", "delta", _huber)
_add(BUILTIN.smooth_l1_loss, "input target reduction beta", "beta", _smooth)
_add(torch.margin_ranking_loss, "input1 input2 target margin reduction", "margin", _ranking)
_add(torch.hinge_embedding_loss, "input target margin reduction", "margin", _hinge)
_add(torch.triplet_margin_loss, "anchor positive negative margin p eps swap reduction", "margin", _triplet)
_add(torch.group_norm, "input num_groups weight bias eps cudnn_enabled", "eps", _by_group)
_add(
    torch.batch_norm, "input weight bias running_mean running_var training momentum eps cudnn_enabled", "momentum eps",
    _by_batch,
)  # fmt: skip
