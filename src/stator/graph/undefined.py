"""Gradients that eager leaves undefined: AOTAutograd gives zeros to an input whose outputs nobody used.

An optimizer passes over a parameter without gradient, but decays one whose gradient is zero. So where some input leads
to some of the outputs only, the node that AOTAutograd puts into the history gets a hook, which takes away what no
gradient led to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from stator.tensors.data import set_data, with_data
from stator.tensors.nodes import NodeMeta
from stator.tensors.plan import New
from stator.tensors.traced import Storage

# For each input that is a tensor: the outputs that may depend on it, and behind them the inputs that were written to.
Reach = list[frozenset[int]]

COMPILED = "CompiledFunctionBackward"
_HOOKS = operator.attrgetter("_backward_hooks")
MOVING = frozenset({with_data, set_data, "set_", "resize_", "resize_as_"})  # tensors live in other memory afterwards


def reach(
    graph: fx.Graph,
    homes: Mapping[fx.Node, Storage],
    values: Sequence[Any],
    wanted: Iterable[int],
    written: Iterable[int],
) -> Reach | None:
    """Which of the wanted outputs each input leads to, at most; None if all do that matter, or it is not known.

    `values` are the inputs, `wanted` the outputs that require grad, `written` the inputs that do after a write.
    """
    nodes = list(graph.nodes)
    if any(node.target in MOVING for node in nodes):
        return None
    pairs = zip(graph.find_nodes(op="placeholder"), values, strict=True)
    inputs = {node: value.requires_grad for node, value in pairs if isinstance(value, torch.Tensor)}
    found = {node: {i} for i, node in enumerate(inputs)}
    memory: dict[Storage, set[int]] = {}
    size = -1
    while size != (size := sum(map(len, found.values())) + sum(map(len, memory.values()))):
        for node in nodes:
            mine = found.setdefault(node, set())
            for taken in node.all_input_nodes if _has_history(node) else ():
                mine |= found[taken]
            home = homes.get(node)
            if home is not None and home.writes:  # whoever lives there sees what was written, before or after
                shared = memory.setdefault(home, set())
                shared |= mine
                for writer in home.writes:
                    shared |= found.get(writer, set())
                mine |= shared
    outputs: Any = nodes[-1].args[0]
    ends: dict[int, Any] = {o: outputs[o] for o in wanted}
    ends |= {len(outputs) + i: nodes[i] for i in written}  # the first nodes are the inputs
    led = [frozenset(o for o, node in ends.items() if i in found[node]) for i in range(len(inputs))]
    partial = any(
        one != ends.keys() for one, differentiable in zip(led, inputs.values(), strict=True) if differentiable
    )
    return led if partial else None


def _has_history(node: fx.Node) -> bool:
    """Whether gradients may go from the result of a node to what it was made of."""
    value = node.meta.value if type(node.meta) is NodeMeta else None
    return type(value) is not New or value.meta.requires_grad


class Undefine:
    """The hook of one node."""

    def __init__(self, led: Reach, places: dict[int, int]) -> None:
        self.led = led
        self.places = places  # the output at each place of the node

    def __call__(self, inner: Sequence[Any], outer: Sequence[Any]) -> tuple[Any, ...] | None:
        given = {self.places.get(i, -1) for i, gradient in enumerate(outer) if gradient is not None}
        if -1 in given:  # an output that is a view of it
            return None
        return tuple(gradient if one & given else None for gradient, one in zip(inner, self.led, strict=True))


def undefining(
    compiled: Callable[..., Sequence[Any]], led: Reach, plain: Callable[..., Sequence[Any]], written: Sequence[int]
) -> Callable[..., Sequence[Any]]:
    """`compiled`, whose inputs get no gradient if nothing that depends on them does; or the recorded operations where
    an input has hooks, which a node would call with None."""
    nodes = Nodes(written, led)
    pick: Any = None

    def run(*args: Any) -> Sequence[Any]:
        nonlocal pick
        if pick is None:
            pick = operator.itemgetter(0, 0, *_differentiable(args))  # of two or more it gives a tuple
        if any(map(_HOOKS, pick(args)[2:])):
            return plain(*args)
        before = [args[i].grad_fn for i in written]
        outputs = compiled(*args)
        for node, places in nodes.behind(outputs, args, before):
            node.register_hook(Undefine(led, places))
        return outputs

    return run


def _differentiable(args: Sequence[Any]) -> list[int]:
    """Which inputs require grad, as in any call of one graph."""
    return [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and arg.requires_grad]


class Nodes:
    """The nodes that AOTAutograd puts into the history of what one graph gives."""

    def __init__(self, written: Sequence[int] = (), led: Reach | None = None) -> None:
        self.written = written  # inputs with another history than before
        self.led = led
        self.known = False  # that they lead to the inputs of the graph, one by one

    def behind(
        self, outputs: Sequence[Any], args: Sequence[Any], before: Sequence[Any] = ()
    ) -> list[tuple[Any, dict[int, int]]]:
        """Those that lead to these very inputs, and which output, or input that was written to, is at which of their
        places; `before` are the nodes that the latter had."""
        found: dict[Any, dict[int, int]] = {}
        for i, output in enumerate(outputs):
            node = output.grad_fn if isinstance(output, torch.Tensor) else None
            if node is not None and type(node).__name__ == COMPILED:
                found.setdefault(node, {})[output.output_nr] = i
        for i in self.written:
            for node, place in getattr(args[i].grad_fn, "next_functions", ()):  # of the copy
                if type(node).__name__ == COMPILED:
                    found.setdefault(node, {})[place] = len(outputs) + i
        if not self.known:
            origins = dict(zip(self.written, before, strict=True))
            self.known = bool(found) and all(
                _takes(node, args, origins, self._reached(places)) for node, places in found.items()
            )
        return list(found.items()) if self.known else []

    def _reached(self, places: dict[int, int]) -> list[bool] | None:
        """Which inputs some output of a node depends on; views of inputs are made behind the node."""
        return None if self.led is None else [not one.isdisjoint(places.values()) for one in self.led]


def _takes(node: Any, args: Sequence[Any], origins: dict[int, Any], reached: list[bool] | None) -> bool:
    """Whether a node leads to these very inputs, one by one; of those not reached AOTAutograd takes no history.

    `origins` are the nodes that some of them had before.
    """
    tensors = [(i, arg) for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    edges = [edge for edge, _ in node.next_functions]
    if len(edges) != len(tensors):
        return False
    for place, (edge, (i, tensor)) in enumerate(zip(edges, tensors, strict=True)):
        origin = origins.get(i, tensor.grad_fn)
        if edge is None:
            if tensor.requires_grad and i not in origins and (reached is None or reached[place]):
                return False
        elif origin is None:
            if getattr(edge, "variable", None) is not tensor:
                return False
        elif origin is not edge:
            return False
    return True
