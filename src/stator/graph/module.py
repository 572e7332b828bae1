"""From a GraphModule to the cheapest callable that does the same."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from stator.graph.source import WRITERS, compile_source


def eager_callable(graph: fx.GraphModule) -> Callable[..., Any]:
    """A plain function of the graph's inputs: no module, no wrapper."""
    return compile_source(graph.graph)


def operation_names(graph: fx.GraphModule) -> list[str]:
    """What each operation of the graph calls, in order."""
    nodes = [node for node in graph.graph.nodes if node.op not in ("placeholder", "output")]
    return [node.target if isinstance(node.target, str) else _name(node.target) for node in nodes]


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None) or str(function)
    module = (getattr(function, "__module__", None) or "").removeprefix("_")
    return name if module in ("", "builtins") else f"{module}.{name}"


READING = frozenset({"item", "detach", "reshape", "to", "unbind"})  # methods on the way from a tensor to its numbers


def only_reads(graph: fx.GraphModule) -> bool:
    """Whether a graph gives numbers that its inputs hold, or what Python makes of them: nothing to compile."""
    for node in graph.graph.nodes:
        if node.op == "call_method":
            reads = node.target in READING
        elif node.op == "output":
            reads = all(map(_is_number, node.all_input_nodes))
        else:
            reads = node.op == "placeholder" or node.target in _HANDLING or _is_calculation(node.target)
        if not reads:
            return False
    return True


# Operations whose result is as long as data says: every backend calls the kernel that torch has.
SEARCHES = frozenset({"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select"})


def only_searches(graph: fx.GraphModule) -> bool:
    """Whether one such operation on inputs is all there is, and what comes of it."""
    operations = [node for node in graph.graph.nodes if node.op not in ("placeholder", "output")]
    found = [node for node in operations if node.target is not operator.getitem]
    if len(found) != 1:
        return False
    target = found[0].target
    return (target if isinstance(target, str) else getattr(target, "__name__", "")) in SEARCHES


_HANDLING = frozenset({torch._C._set_grad_enabled, torch.scalar_tensor, operator.getitem})


def _is_number(node: fx.Node) -> bool:
    """An int, or a tensor that a float is read from."""
    return node.target == "item" or (node.target == "to" and node.args[1:] == (torch.float64,))


def _is_calculation(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "stator"


def cheapest(graph: fx.GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The module itself, given back by a backend and not yet run, becomes the plain function of its graph."""
    given = compiled is graph or getattr(compiled, "__self__", None) is graph
    stale = getattr(type(graph), "_needs_recompile", None) is not None and graph._needs_recompile()
    if given and stale and all(node.op in WRITERS for node in graph.graph.nodes):
        return eager_callable(graph)
    return compiled
