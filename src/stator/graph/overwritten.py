"""Inputs that are overwritten although backward needs what was in them: Inductor keeps the input and no copy of it.

Eager copies it before the write. In compiled code it would have changed by then, which autograd notices and refuses.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from stator.tensors.plan import New
from stator.tensors.targets import called

Inputs = Callable[[str], Any]  # metadata of an input by its name

# Writes whose gradients need what is there afterwards at most, and those that need what was there for another operand.
_NOT_NEEDED = re.compile(
    r"^(i?add|i?sub|copy|fill|zero|setitem|masked_fill|masked_scatter|index_\w+|scatter\w*|put|triu|tril|relu|threshold|"
    r"hardtanh|leaky_relu|elu|sigmoid|tanh|exp|sqrt|rsqrt|reciprocal|neg|squeeze|unsqueeze|t|transpose|detach|"
    r"dropout|round|floor|ceil|trunc|sign|addmm|addmv|addr|baddbmm|addcmul|addcdiv|normal|uniform|bernoulli|random)_?$"
)
_ASSIGNING = frozenset(
    {operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow, operator.imatmul}
)
_FOR_ANOTHER = re.compile(r"^(i?mul|i?(true)?div|multiply|divide|true_divide)_?$")


def is_needed(graph: fx.Graph, writers: set[fx.Node], inputs: Inputs, enabled: bool) -> bool:
    """Whether backward may need what one of these nodes overwrites; `enabled`: the graph starts in grad mode."""
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            enabled = bool(node.args[0])
        elif enabled and node in writers and _keeps(node, inputs):
            return True
    return False


def _keeps(node: fx.Node, inputs: Inputs) -> bool:
    name = called(node)
    if _NOT_NEEDED.match(name) or not _is_in_place(node, name):
        return False
    others = node.all_input_nodes[1:]
    if _FOR_ANOTHER.match(name):
        return any(_requires_grad(other, inputs) for other in others)
    return any(_requires_grad(one, inputs) for one in node.all_input_nodes)


def _is_in_place(node: fx.Node, name: str) -> bool:
    """Whether it writes over what it calculates with; normalisation writes to its statistics only."""
    return name.endswith("_") or node.kwargs.get("inplace") is True or node.target in _ASSIGNING


def _requires_grad(node: fx.Node, inputs: Inputs) -> bool:
    value = inputs(node.name) if node.op == "placeholder" else getattr(node.meta, "value", None)
    value = value.meta if type(value) is New else value
    return bool(getattr(value, "requires_grad", True))
