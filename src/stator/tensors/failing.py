"""Operations that succeed or fail depending on data, which capture does not know."""

from __future__ import annotations

import operator
import re
from typing import Any

import torch
from torch import fx

from stator.tensors.array_calls import array_call
from stator.tensors.plan import New
from stator.tensors.targets import called

# By name: indices out of range, matrices that cannot be decomposed, probabilities and ranges that are none.
_NAMES = re.compile(
    r"embedding|gather|scatter|index_|^take|^put|one_hot|nll_loss|cross_entropy|multi\w*margin|ctc_loss|linalg(?!_vector_norm)|"
    r"cholesky|^inv|solve|lstsq|svd|eigh?$|eigvals|^lu|^lobpcg|multinomial|bernoulli|binomial|poisson|^normal|"
    r"bincount|repeat_interleave|assert|masked_scatter|^pinv|pinverse|logdet|^python_|^select$|histc|quantile|"
    r"searchsorted|istft|segment_reduce|fake_quantize|as_strided$"  # the last: beyond the memory of an input
)
_DIVISIONS = re.compile(r"floordiv|floor_divide|^i?mod$|remainder|fmod")  # of integers, by zero
# Kernels that some types lack, which fake tensors do not know: operations on bits, and on anything but floats.
_BITS = re.compile(r"^_*i?(and|or|xor|invert|lshift|rshift)_*$|bitwise|gcd|lcm")
_OF_FLOATS = re.compile(
    r"softmax|_norm|pool|conv|interpolate|upsample|elu|silu|mish|hard|softplus|glu|histc|cdist|grid_sample|fold|loss|"
    r"lerp|quantile|median|erf|lgamma|digamma|bessel|special|prelu|cumprod|logcumsum|trapz|renorm|bilinear|pad"
)
_RANDOM = re.compile(r"rand|normal|uniform|bernoulli|dropout|multinomial|exponential|geometric|cauchy|poisson|rrelu")
_ITEMS = (operator.getitem, operator.setitem)
_OWN = ("torch", "_operator", "stator.tensors", "stator.shapes")


def may_fail(node: fx.Node) -> bool:
    """Whether the data of its inputs decides if this node raises."""
    if node.target is array_call or getattr(node.meta, "warns", False):  # filters make errors of warnings
        return True
    if node.target in _ITEMS:
        return _has_nodes(node.args[1])
    if getattr(node.target, "may_fail", False):  # graphs inside of this one
        return True
    name = called(node)
    if _DIVISIONS.search(name):
        made = getattr(node.meta, "value", None)
        return not (type(made) is New and made.meta.dtype.is_floating_point)
    return _NAMES.search(name) is not None or _may_lack_kernel(node, name)


def _may_lack_kernel(node: fx.Node, name: str) -> bool:
    if _BITS.search(name):
        return any(dtype.is_floating_point or dtype.is_complex for dtype in _dtypes(node))
    return _OF_FLOATS.search(name) is not None and not _COMMON.issuperset(_dtypes(node))


_COMMON = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})


def _dtypes(node: fx.Node) -> list[torch.dtype]:
    """Of the tensors that a node takes and gives, as far as they are known."""
    values = [getattr(row.meta, "value", None) for row in (node, *node.all_input_nodes)]
    kinds = [getattr(getattr(value, "meta", value), "dtype", None) for value in values]
    return [dtype for dtype in kinds if dtype is not None]


def may_draw(node: fx.Node) -> bool:
    """Whether a node that writes to a tensor may draw random numbers for it."""
    if getattr(node.target, "may_draw", False):  # graphs inside of this one
        return True
    name = called(node)
    return _RANDOM.search(name) is not None


def draws_nothing(node: fx.Node) -> bool:
    """Attention without dropout: it belongs to the operations that may draw, but does not."""
    if getattr(node.target, "__name__", "") != "scaled_dot_product_attention":
        return False
    rate = node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0)
    return type(rate) is float and rate == 0.0


def _has_nodes(index: Any) -> bool:
    return isinstance(index, fx.Node) or (isinstance(index, (tuple, list)) and any(map(_has_nodes, index)))


def may_run_twice(node: fx.Node) -> bool:
    """Whether a node that was kept for its effect has none but on tensors of the graph, and on random state."""
    return isinstance(node.target, str) or _home(node.target).startswith(_OWN)


def _home(target: Any) -> str:
    namespace = getattr(target, "namespace", None)  # of torch.ops
    if isinstance(namespace, str):
        return "torch" if namespace in ("aten", "prims", "stator") else namespace
    return getattr(target, "__module__", None) or ""
