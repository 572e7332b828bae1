"""From a GraphModule to the cheapest callable that does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def cheapest(graph: fx.GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The module itself, given back by a backend and not yet run, becomes the plain function of its graph."""
    given = compiled is graph or getattr(compiled, "__self__", None) is graph
    stale = getattr(type(graph), "_needs_recompile", None) is not None and graph._needs_recompile()
    if given and stale and all(node.op in WRITERS for node in graph.graph.nodes):
        return eager_callable(graph)
    return compiled
