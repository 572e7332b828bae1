"""Operations of a graph that take a number as a 0-d tensor where torch takes a Python number only.

On real tensors such an operation is the call that the program made, so its result is the same to the last bit. A
compiler that traces it sees a formula of tensor operations with the same meaning.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F


class Op(NamedTuple):
    """One operation: its parameters in order, which of them are numbers, and the function in the graph."""

    parameters: tuple[str, ...]
    numbers: frozenset[str]
    function: Any
    traceable: bool = True  # whether its formula says what it does, or only what comes out
    reads: bool = False  # whether tensors may stand for its numbers
    accepts: Callable[[Any], bool] | None = None  # for which numbers it does the same, if not for all


OPS: dict[Any, Op] = {}  # by what the program calls


def is_read(number: Any) -> bool:
    """Whether a number can be read: it has a value, and nobody traces."""
    if isinstance(number, (list, tuple)):
        return all(map(is_read, number))
    if not isinstance(number, torch.Tensor):
        return True
    return type(number) is torch.Tensor and torch._C._len_torch_dispatch_stack() == 0


def read(number: Any) -> Any:
    if isinstance(number, (list, tuple)):
        return [read(item) for item in number]
    return number.item() if isinstance(number, torch.Tensor) else number


def added(
    name: str, call: Any, parameters: str, numbers: str, formula: Callable[..., Any], traceable: bool = True
) -> Op:
    """Adds an operation to this module; `call` takes its parameters as Python has them."""
    names = tuple(parameters.split())
    places = [names.index(number) for number in numbers.split()]

    def op(*args: Any) -> Any:
        if all(is_read(args[place]) for place in places if place < len(args)):
            given = list(args)
            for place in places:
                if place < len(given):
                    given[place] = read(given[place])
            return call(*given)
        return formula(*args)

    op.__name__ = op.__qualname__ = name
    op.__module__ = __name__
    globals()[name] = op
    return Op(names, frozenset(numbers.split()), op, traceable)


def met(x: torch.Tensor, number: Any) -> Any:
    """A number as a tensor that decides no dtype when it meets x."""
    if not isinstance(number, torch.Tensor):
        return number
    return number.to(torch.result_type(x, 1.0))


def wide(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors as the kernels calculate with them: those of 16 bits in float32."""
    return tuple(x.float() if x.is_floating_point() and x.dtype.itemsize < 4 else x for x in tensors)


def alike(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors of several types in the one that the kernels calculate in, which numbers are rounded to as well."""
    if len({x.dtype for x in tensors}) == 1:
        return tensors
    kinds = [
        functools.reduce(torch.promote_types, (x.dtype for x in tensors if bool(x.dim()) is sized))
        for sized in (True, False)
        if any(bool(x.dim()) is sized for x in tensors)
    ]
    dtype = kinds[0] if len(kinds) == 1 or _rank(kinds[0]) >= _rank(kinds[1]) else torch.promote_types(*kinds)
    return tuple(x.to(dtype) for x in tensors)


def _rank(dtype: torch.dtype) -> int:
    """Which kind of number goes before another one; tensors of no dimensions say nothing else."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not torch.bool)


def widely(formula: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The formula for tensors of 16 bits as the kernels calculate it: in float32, rounded once."""

    def run(x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return formula(*wide(x), *rest).to(x.dtype)

    return run


def scaled(x: torch.Tensor, y: Any, s: Any) -> torch.Tensor:
    """`x + s * y`, rounded once; s is of the type of the tensors first."""
    if not isinstance(y, torch.Tensor):
        return x + y * met(x, s)
    x, y = alike(x, y)
    (left, right), dtype = wide(x, y), torch.result_type(x, y)
    factor = met(right, met(y, s))
    if left.dtype != right.dtype or left.dtype != factor.dtype:
        return (left + right * factor).to(dtype)
    return torch.addcmul(left, right, factor).to(dtype)


def _with_product(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, s: Any = 1) -> torch.Tensor:
    x, y, z = alike(x, y, z)
    left, first, second = wide(x, y, z)
    return torch.addcmul(left, first * met(first, s), second).to(torch.result_type(x, y))


def _with_quotient(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, s: Any = 1) -> torch.Tensor:
    x, y, z = alike(x, y, z)
    left, first, second = wide(x, y, z)
    return torch.addcdiv(left, first * met(first, s), second).to(torch.result_type(x, y))


def _between(x: torch.Tensor, y: torch.Tensor, s: Any) -> torch.Tensor:
    left, right = wide(x, y)
    return torch.lerp(left, right, s.to(left.dtype)).to(x.dtype)


def named(call: Any, parameters: str, keywords: str) -> Any:
    """The call with its last parameters given by keyword."""
    names, by_name = parameters.split(), keywords.split()
    plain = len(names) - len(by_name)

    def run(*args: Any) -> Any:
        given = zip(by_name, args[plain:], strict=False)
        return call(*args[:plain], **{name: value for name, value in given if name != "dim" or value is not None})

    return run


def into(x: torch.Tensor, formula: Callable[..., Any], *rest: Any) -> torch.Tensor:
    """The formula written to x; for gradients it may need x as it was."""
    return x.copy_(formula(x.clone() if x.requires_grad and torch.is_grad_enabled() else x, *rest))


def _method(name: str, parameters: str, numbers: str, formula: Callable[..., Any], keywords: str = "") -> None:
    """Function, method and in-place method of a name."""
    for owner, attribute in ((torch, name), (torch.Tensor, name), (torch.Tensor, f"{name}_"), (torch, f"{name}_")):
        call = getattr(owner, attribute, None)
        if call is None:
            continue
        known = f"{name}_{'alpha' if keywords == 'alpha' else 'number'}{'' if attribute == name else '_'}"
        writes = attribute.endswith("_")
        if known not in globals():
            made = (lambda x, *rest: into(x, formula, *rest)) if writes else formula
            row = added(known, named(getattr(torch.Tensor, attribute), parameters, keywords), parameters, numbers, made)
        OPS[(call, "alpha") if keywords == "alpha" else call] = row


# ---- operations on one tensor ---------------------------------------------------------------------

_method("pow", "self exponent", "exponent", lambda x, s: torch.pow(x, met(x, s)))
_method("float_power", "self exponent", "exponent", lambda x, s: torch.pow(x.double(), s))
_method("add", "self other", "other", lambda x, s: x + met(x, s))
_method("sub", "self other", "other", lambda x, s: x - met(x, s))
_method("add", "self other alpha", "alpha", scaled, "alpha")
_method("sub", "self other alpha", "alpha", lambda x, y, s: scaled(x, y, -s), "alpha")
_method("mul", "self other", "other", lambda x, s: x * met(x, s))
_method("div", "self other", "other", lambda x, s: x / met(x, s))
_method("remainder", "self other", "other", lambda x, s: torch.remainder(x, met(x, s)))
_method("fmod", "self other", "other", lambda x, s: torch.fmod(x, met(x, s)))
_method("floor_divide", "self other", "other", lambda x, s: torch.floor_divide(x, met(x, s)))
_method("addcmul", "self tensor1 tensor2 value", "value", _with_product, "value")
_method("addcdiv", "self tensor1 tensor2 value", "value", _with_quotient, "value")
_method("lerp", "self end weight", "weight", _between)


def _bounded(x: torch.Tensor, low: Any = None, high: Any = None) -> torch.Tensor:
    x = x if low is None else torch.clamp_min(x, met(x, low))
    return x if high is None else torch.clamp_max(x, met(x, high))


_method("clamp", "self min max", "min max", _bounded)
_method("clip", "self min max", "min max", _bounded)
_method("clamp_min", "self min", "min", _bounded)
_method("clamp_max", "self max", "max", lambda x, s: _bounded(x, None, s))


REFLECTIONS: dict[Any, Op] = {  # by operator: `number operator tensor`
    operation: added(f"r{operation.__name__}_number", swapped, "self other", "other", formula)
    for operation, swapped, formula in (
        (operator.add, lambda x, s: s + x, lambda x, s: met(x, s) + x),
        (operator.mul, lambda x, s: s * x, lambda x, s: met(x, s) * x),
        (operator.sub, lambda x, s: s - x, lambda x, s: met(x, s) - x),
        (operator.truediv, lambda x, s: s / x, lambda x, s: met(x, s) / x),
        (operator.floordiv, lambda x, s: s // x, lambda x, s: met(x, s) // x),
        (operator.mod, lambda x, s: s % x, lambda x, s: met(x, s) % x),
        (operator.pow, lambda x, s: s**x, lambda x, s: met(x, s) ** x),
    )
}


# ---- factories ------------------------------------------------------------------------------------


def _filled(size: Any, s: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    return s.to(dtype=dtype or torch.get_default_dtype(), device=device).expand(size).clone()


def _filled_like(x: torch.Tensor, s: Any, dtype: Any = None) -> torch.Tensor:
    return torch.empty_like(x, dtype=dtype).copy_(s)


OPS[torch.full] = added(
    "full",
    named(torch.full, "size fill_value dtype device", "dtype device"),
    "size fill_value dtype device",
    "fill_value",
    _filled,
)
OPS[torch.full_like] = added(
    "full_like",
    named(torch.full_like, "self fill_value dtype", "dtype"),
    "self fill_value dtype",
    "fill_value",
    _filled_like,
)
OPS[torch.Tensor.new_full] = added(
    "new_full",
    torch.Tensor.new_full,
    "self size fill_value",
    "fill_value",
    lambda x, size, s: _filled(size, s, x.dtype, x.device),
)


# ---- lists of tensors -----------------------------------------------------------------------------


def _each(numbers: Any, count: int) -> Iterator[Any]:
    return iter(numbers if isinstance(numbers, (list, tuple)) else [numbers] * count)


def _foreach(name: str, parameters: str, formula: Callable[..., Any], keywords: str = "") -> None:
    """Both forms of a `_foreach_` operation; the number comes last, or a list of them."""
    number = parameters.split()[-1]
    for writes in (False, True):
        call = getattr(torch, f"_foreach_{name}_" if writes else f"_foreach_{name}")

        def loop(*args: Any, writes: bool = writes) -> Any:
            *lists, numbers = args
            rows = zip(*lists, _each(numbers, len(lists[0])), strict=True)
            if writes:
                return [into(row[0], formula, *row[1:]) for row in rows]
            return tuple(formula(*row) for row in rows)

        label = f"foreach_{name}{'_alpha' if keywords == 'alpha' else ''}{'_' if writes else ''}"
        key = (call, "alpha") if keywords == "alpha" else call
        OPS[key] = added(label, named(call, parameters, keywords), parameters, number, loop)


_foreach("add", "self other alpha", scaled, "alpha")
_foreach("sub", "self other alpha", lambda x, y, s: scaled(x, y, -s), "alpha")
_foreach("add", "self scalar", lambda x, s: x + met(x, s))
_foreach("sub", "self scalar", lambda x, s: x - met(x, s))
_foreach("mul", "self scalar", lambda x, s: x * met(x, s))
_foreach("div", "self scalar", lambda x, s: x / met(x, s))
_foreach("pow", "self exponent", lambda x, s: torch.pow(x, met(x, s)))
_foreach("lerp", "self end weight", _between)
_foreach("addcmul", "self tensor1 tensor2 value", _with_product)
_foreach("addcdiv", "self tensor1 tensor2 value", _with_quotient)
_foreach("clamp_min", "self scalar", lambda x, s: torch.clamp_min(x, met(x, s)))
_foreach("clamp_max", "self scalar", lambda x, s: torch.clamp_max(x, met(x, s)))
_foreach("maximum", "self scalar", lambda x, s: torch.maximum(x, met(x, s)))
_foreach("minimum", "self scalar", lambda x, s: torch.minimum(x, met(x, s)))


# ---- torch.nn.functional --------------------------------------------------------------------------


def _function(call: Any, parameters: str, numbers: str, formula: Callable[..., Any]) -> None:
    OPS[call] = added(f"{call.__name__}_number", call, parameters, numbers, formula)


@widely
def softplus(x: torch.Tensor, beta: Any = 1.0, threshold: Any = 20.0) -> torch.Tensor:
    beta, threshold = met(x, beta), met(x, threshold)
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(torch.clamp_max(scaled, threshold))) / beta)


@widely
def _elu(x: torch.Tensor, alpha: Any = 1.0) -> torch.Tensor:
    return torch.where(x > 0, x, torch.expm1(x.clamp_max(0)) * met(x, alpha))


def hardtanh(x: torch.Tensor, low: Any = -1.0, high: Any = 1.0) -> torch.Tensor:
    """No gradient at the bounds, unlike `clamp`."""
    low, high = met(x, low), met(x, high)
    return torch.where(x <= low, low, torch.where(x >= high, high, x))


def _softshrink(x: torch.Tensor, lambd: Any = 0.5) -> torch.Tensor:
    lambd = met(x, lambd)
    return torch.where(x > lambd, x - lambd, torch.where(x < -lambd, x + lambd, x * 0))


def fit(shape: Any, *found: Any) -> None:
    """Raises, as torch does, where something has another shape than what is normalised."""
    for sizes in found:
        torch._check(len(sizes) == len(shape))
        for size, wanted in zip(sizes, shape, strict=True):
            torch._check(size == wanted)


def _layer_norm(x: torch.Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> torch.Tensor:
    fit(shape, x.shape[-len(shape) :], *(one.shape for one in (weight, bias) if one is not None))
    dims = tuple(range(-len(shape), 0))
    wide = x.float() if x.dtype.itemsize < 4 else x
    mean = wide.mean(dims, keepdim=True)
    spread = (wide - mean).square().mean(dims, keepdim=True)
    result = (wide - mean) * torch.rsqrt(spread + met(wide, eps))
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias).to(x.dtype)


def _rms_norm(x: torch.Tensor, shape: Any, weight: Any = None, eps: Any = None) -> torch.Tensor:
    fit(shape, x.shape[-len(shape) :], *(one.shape for one in (weight,) if one is not None))
    dims = tuple(range(-len(shape), 0))
    wide = x.float() if x.dtype.itemsize < 4 else x
    result = wide * torch.rsqrt(wide.square().mean(dims, keepdim=True) + met(wide, eps))
    return (result if weight is None else result * weight).to(x.dtype)


def _attention(q: Any, k: Any, v: Any, mask: Any, dropout: Any, causal: Any, scale: Any = None, *rest: Any) -> Any:
    grouped = {"enable_gqa": rest[0]} if rest else {}
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    return F.scaled_dot_product_attention(
        q * met(q, factor), k, v, attn_mask=mask, dropout_p=dropout or 0.0, is_causal=bool(causal), scale=1.0, **grouped
    )


def _attend(q: Any, k: Any, v: Any, mask: Any, dropout: Any, causal: Any, *named: Any) -> torch.Tensor:
    keywords = dict(zip(("scale", "enable_gqa"), named, strict=False))
    return F.scaled_dot_product_attention(q, k, v, mask, dropout or 0.0, bool(causal), **keywords)


OPS[F.scaled_dot_product_attention] = added(
    "attention", _attend, "query key value attn_mask dropout_p is_causal scale enable_gqa", "scale", _attention
)
_function(
    F.leaky_relu, "input negative_slope", "negative_slope", lambda x, s=0.01: torch.where(x > 0, x, x * met(x, s))
)
_function(F.elu, "input alpha", "alpha", _elu)
_function(F.softplus, "input beta threshold", "beta threshold", softplus)
_function(F.hardtanh, "input min_val max_val", "min_val max_val", hardtanh)
_function(F.layer_norm, "input normalized_shape weight bias eps", "eps", _layer_norm)
_function(F.rms_norm, "input normalized_shape weight eps", "eps", _rms_norm)
_function(
    F.threshold,
    "input threshold value",
    "threshold value",
    lambda x, t, v: torch.where(x > met(x, t), x, met(x, v)),
)
_function(
    F.celu,
    "input alpha",
    "alpha",
    widely(lambda x, s=1.0: torch.where(x > 0, x, torch.expm1(x.clamp_max(0) / met(x, s)) * met(x, s))),
)
_function(F.hardshrink, "input lambd", "lambd", lambda x, s=0.5: torch.where(x.abs() > met(x, s), x, 0.0))
_function(F.softshrink, "input lambd", "lambd", _softshrink)
_function(torch.rsub, "self other", "other", lambda x, s: met(x, s) - x)


# ---- products -------------------------------------------------------------------------------------


def _combined(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`beta * x + alpha * product`; what beta = 0 is multiplied with does not matter."""

    def formula(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
        x, a, b = alike(x, a, b)
        made = product(a, b)
        beta = 1 if beta is None else beta
        kept = x * met(x, beta) if not isinstance(beta, torch.Tensor) else torch.where(beta == 0, 0.0, x * met(x, beta))
        return kept + made * met(made, 1 if alpha is None else alpha)

    return formula


def _product(name: str, product: Callable[..., torch.Tensor]) -> None:
    """Function, method and in-place method, with `beta=` and `alpha=` by name."""
    parameters = "self first second beta alpha"
    for owner, attribute in ((torch, name), (torch.Tensor, name), (torch.Tensor, f"{name}_")):
        call, writes = getattr(owner, attribute), attribute.endswith("_")

        def given(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1, call: Any = call) -> Any:
            return call(x, a, b, beta=1 if beta is None else beta, alpha=1 if alpha is None else alpha)

        formula = _combined(product)
        made = (lambda x, *rest, formula=formula: into(x, formula, *rest)) if writes else formula
        row = added(f"{attribute}_{owner.__name__}_number", given, parameters, "beta alpha", made)
        OPS[call] = OPS[call, "alpha"] = row


_product("addmm", torch.mm)
_product("addmv", torch.mv)
_product("addr", torch.outer)
_product("baddbmm", torch.bmm)
_product("addbmm", lambda a, b: torch.bmm(a, b).sum(0))


# ---- what only runs as it is: its formula tells the type of the result -----------------------------


def _as_it_is(call: Any, parameters: str, numbers: str, keywords: str = "", **example: Any) -> None:
    """A call that is part of a graph nobody traces; `example`: numbers for which the result has the same type."""
    names = parameters.split()
    plain = named(call, parameters, keywords)

    def stand_in(*args: Any) -> Any:
        return plain(*(example.get(name, arg) for name, arg in zip(names, args, strict=False)))

    label = f"{getattr(call, '__name__', 'call')}_as_it_is"
    OPS[call] = added(label, plain, parameters, numbers, stand_in, traceable=False)


for _call in (F.alpha_dropout, F.feature_alpha_dropout):
    _as_it_is(_call, "input p training", "p", p=0.5)
_as_it_is(torch.linalg.vector_norm, "x ord dim keepdim", "ord", ord=2.0)
_as_it_is(torch._C._nn.multi_margin_loss, "input target p margin weight reduction", "margin", margin=1.0)
_as_it_is(torch.pairwise_distance, "x1 x2 p eps keepdim", "p eps", p=2.0, eps=1e-6)
_as_it_is(torch.cdist, "x1 x2 p", "p", p=2.0)
