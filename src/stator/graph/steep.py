"""Whether the slope of an operation may be infinite or undefined, and whether nan has come of that.

AOTAutograd takes zeros for the gradient of a result that got none, and zero times such a slope is nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

# By the name of the function or method, without its family and underscores around it.
_STEEP = """
acos acosh arccos arccosh arcsin arcsinh arctan2 arctanh asin asinh atan2 atanh
cdist cholesky cosine_similarity det dist div eig eigh erfinv exp2 expm1 hypot
inverse kl_div lgamma log log10 log1p log2 logdet logit logsumexp norm normalize pdist pow prod qr reciprocal
renorm rsqrt sinc slogdet solve sqrt std std_mean svd true_divide truediv vector_norm xlogy matrix_norm pinv
"""
STEEP = frozenset(_STEEP.split())
QUOTIENTS = frozenset({"div", "truediv", "true_divide"})


def is_steep(graph: fx.Graph) -> bool:
    """Whether a graph has such operations, or some that are not looked into."""
    return any(_is_steep(node) for node in graph.nodes if node.op.startswith("call"))


def _is_steep(node: fx.Node) -> bool:
    name = _name(node)
    if name not in STEEP:
        return name in ("apply", "checkpoint") or node.op == "call_module"
    operand, other = (*node.args, None, None)[:2]
    if name in QUOTIENTS:
        operand = other
    elif name == "pow" and type(other) is int and other > 0:
        return False
    return isinstance(operand, fx.Node) and not _is_kept_off(operand)


def _name(node: fx.Node) -> str:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return str(name).strip("_").removeprefix("linalg_").removeprefix("special_")


def _is_kept_off(node: fx.Node) -> bool:
    """Whether a number is added, so that what is left is hardly ever zero: `variance + eps`."""
    return _name(node) in ("add", "iadd") and any(type(arg) in (int, float) and arg for arg in node.args)


def hold_nan(gradients: Sequence[Any]) -> bool:
    """Whether one of some gradients, or None, holds nan; one look at them all."""
    found = [one.detach() for one in gradients if one is not None]
    if not found:
        return False
    norms = torch._foreach_norm(found)
    return bool(torch.stack([norm.double().to("cpu") for norm in norms]).sum().isnan())
