"""Breaks behind which a program asks for the autograd history of tensors that a graph made.

What a trace returns has one history for all: none of its results was made of another one, and it can be differentiated
once. Gradients with respect to such a tensor, hooks on it and gradients of gradients need the history that the
operations make, so there the graph runs as it is.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from stator.tensors.traced import TracedTensor

NAMES = frozenset({"_autograd_grad", "register_hook", "retain_grad", "grad_fn", "create_graph"})
TAKES = frozenset({"autograd", "grad"})  # `torch.autograd.grad`


def are_asked_for(found: Any, outputs: Any) -> bool:
    """Whether code that goes on behind a break mentions them, and some results have one."""
    if not any(type(one) is TracedTensor and one._meta.requires_grad for one in outputs):
        return False
    return any(mentions(frame.code) for frame in found.frames)


def mentions(code: CodeType) -> bool:
    if TAKES.issubset(code.co_names) or not NAMES.isdisjoint(code.co_names) or not NAMES.isdisjoint(code.co_varnames):
        return True
    if any(type(value) is tuple and "create_graph" in value for value in code.co_consts):  # names of arguments
        return True
    return any(mentions(value) for value in code.co_consts if type(value) is CodeType)
