"""Symbolic ints where torch takes a number that it turns into a constant, or that compilers cannot follow.

Next to a floating tensor an int means what the float of the same value means, up to 2**53, and symbolic floats have
forms for these calls. A number that is written into a tensor is a tensor without dimensions.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from stator.shapes.scalar import TracedInt
from stator.shapes.scalar_forms import OPS
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

# Rows of `OPS` by name. The others take symbolic ints as they are, or only floats make sense to them.
_OF_FLOATS = frozenset(
    [
        "pow",
        "pow_",
        "ipow",
        "__pow__",
        "__ipow__",
        "float_power",
        "float_power_",
        "lerp",
        "lerp_",
        "clamp",
        "clamp_",
        "clip",
        "clip_",
        "clamp_min",
        "clamp_min_",
        "clamp_max",
        "clamp_max_",
        "_foreach_pow",
        "_foreach_pow_",
        "_foreach_lerp",
        "_foreach_lerp_",
        "hardtanh",
        "hardtanh_",
        "threshold",
        "threshold_",
        "_threshold",
        "softshrink",
        "layer_norm",
        "rms_norm",
        "group_norm",
        "batch_norm",
        "instance_norm",
        "nan_to_num",
        "pad",
        "huber_loss",
        "smooth_l1_loss",
        "linalg_vector_norm",
        "margin_ranking_loss",
        "hinge_embedding_loss",
        "cosine_embedding_loss",
        "cosine_similarity",
        "triplet_margin_loss",
        "multi_margin_loss",
        "pairwise_distance",
        "logit",
    ]
)


def _rows() -> dict[Any, tuple[tuple[str, ...], frozenset[str]]]:
    made = {}
    for call, op in OPS.items():
        if type(call) is not tuple and call.__name__ in _OF_FLOATS:
            made[call] = op.parameters, op.numbers
    filled = ("self", "mask", "value"), frozenset({"value"})
    both = ("input", "other"), frozenset({"input", "other"})
    norm = ("input", "p"), frozenset({"p"})
    made |= dict.fromkeys((torch.masked_fill, torch.Tensor.masked_fill, torch.Tensor.masked_fill_), filled)
    made |= dict.fromkeys((torch.xlogy, torch.special.xlogy, torch.Tensor.xlogy, torch.special.xlog1py), both)
    made |= dict.fromkeys((operator.pow, torch.pow, torch.Tensor.__rpow__), both)
    for function, number in ((F.pad, "value"), (F.smooth_l1_loss, "beta"), (F.huber_loss, "delta")):
        code = function.__code__
        made[function] = code.co_varnames[: code.co_argcount], frozenset({number})
    return made | dict.fromkeys((torch.norm, torch.Tensor.norm), norm)


PLACES = _rows()  # by what the program calls: its parameters, and which of them are numbers
STORES = frozenset({operator.setitem, torch.Tensor.__setitem__})
CALLS = PLACES.keys() | STORES


def as_numbers(
    recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of such a call with floats, or a tensor, in place of symbolic ints."""
    if func in STORES:
        return (_stored(recorder, *args) if len(args) == 3 and type(args[2]) is TracedInt else args), kwargs
    names, numbers = PLACES[func]
    found = [i for i, arg in enumerate(args) if type(arg) is TracedInt and numbers.issuperset(names[i : i + 1])]
    words = [name for name, value in kwargs.items() if type(value) is TracedInt and (name in numbers or len(args) == 1)]
    if not (found or words) or not _meets_floats(args):
        return args, kwargs
    recorder.has_floats = True
    given = tuple(_float(arg) if i in found else arg for i, arg in enumerate(args))
    return given, {name: _float(value) if name in words else value for name, value in kwargs.items()}


def _float(value: TracedInt) -> Any:
    """The number as a float; beyond `EXACT` it would be rounded on the way, so that is a constant."""
    symbols = value.symbols
    for comparison, bound in ((operator.le, EXACT), (operator.ge, -EXACT)):
        if symbols.is_unbacked(value):
            symbols.suppose(comparison, value, bound)
        elif not symbols.compare(comparison, value, bound):
            return value.decay()
    return symbols.floats.calculated(float, value)


EXACT = 1 << 53


def _meets_floats(args: tuple[Any, ...]) -> bool:
    """Whether the first tensor is floating."""
    for arg in args:
        for tensor in arg if type(arg) in (list, tuple) else (arg,):
            if type(tensor) is TracedTensor:
                return bool(tensor._meta.dtype.is_floating_point)
    return False


def _stored(recorder: Recorder, tensor: Any, index: Any, value: TracedInt) -> tuple[Any, ...]:
    """`x[index] = n`; a number that the type of the tensor cannot hold is an error in eager."""
    if type(tensor) is not TracedTensor:
        return tensor, index, value
    dtype = tensor._meta.dtype
    if dtype is not torch.int64 and dtype is not torch.bool and not dtype.is_floating_point and not dtype.is_complex:
        bounds = torch.iinfo(dtype)
        value.symbols.suppose(operator.ge, value, bounds.min)
        value.symbols.suppose(operator.le, value, bounds.max)
    made = recorder.call(torch.scalar_tensor, (value,), {"dtype": dtype, "device": "cpu"})
    return tensor, index, made
