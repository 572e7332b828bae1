"""Capturing a function of the program as a graph of its own, and recording the node that uses it."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import SUPPORTED_NODES, tree_flatten, tree_unflatten

from stator import _frames
from stator.errors import Unsupported
from stator.frame import Frame
from stator.graph.source import compile_source
from stator.runtime.footprint import Footprint
from stator.tensors.bodies import ABSENT, TENSOR, Body, Found, Structure, calling
from stator.tensors.failing import may_draw, may_fail
from stator.tensors.meta import Meta
from stator.tensors.modes import QUIET
from stator.tensors.subgraph import SubGraph
from stator.tensors.targets import Target
from stator.tensors.traced import TracedTensor

CONSTANTS = frozenset({int, float, complex, bool, str, type(None), torch.dtype, torch.device, torch.Size})
CONTAINERS = frozenset({list, tuple, dict, OrderedDict, defaultdict, deque})
Inner = Callable[[int, TracedTensor], Meta]  # metadata that the function sees: of the n-th leaf of its arguments


@dataclass
class Captured:
    """A body, and the tensors and numbers that it takes from around it."""

    body: Body
    taken: list[Any]
    outputs: list[Meta]  # of the tensors in its result
    owned: list[bool]  # by output: the body made its memory
    shared: bool  # two of them have the same memory


def flatten(host: Any, value: Any, name: str) -> tuple[list[Any], Any]:
    """Leaves and structure of a value, without running code of the program."""
    check_containers(host, value, name)
    with host.recorder.paused():
        return tree_flatten(value)


def check_containers(host: Any, value: Any, name: str) -> None:
    """Containers as they are, which tell everything about themselves."""
    kind = type(host.settled(value))
    if kind is TracedTensor or (kind not in SUPPORTED_NODES and not is_named_tuple(kind)):
        return
    if kind not in CONTAINERS and not is_named_tuple(kind):
        raise host.refuse("higher-order", f"{name}: a {kind.__qualname__} among arguments or results", function=name)
    for item in value.values() if isinstance(value, dict) else value:
        check_containers(host, item, name)


def is_named_tuple(kind: type) -> bool:
    """Also those that torch itself returns."""
    return issubclass(kind, tuple) and (hasattr(kind, "_fields") or kind.__module__ == "torch.return_types")


def structure(leaves: Sequence[Any], spec: Any) -> Structure:
    """The structure around tensors that are given to a body; what no graph can hold is left out."""
    kinds = [type(leaf) for leaf in leaves]
    return Structure(
        tuple(
            TENSOR if kind is TracedTensor else leaf if kind in CONSTANTS else ABSENT
            for leaf, kind in zip(leaves, kinds, strict=True)
        ),
        spec,
    )


def tensors_of(leaves: Sequence[Any]) -> list[TracedTensor]:
    return [leaf for leaf in leaves if type(leaf) is TracedTensor]


def capture(
    host: Any, f: Frame, name: str, function: Any, args: Sequence[Any], kwargs: dict[str, Any], inner: Inner,
    gathers: bool = False, transformed: bool = False,
) -> Captured:  # fmt: skip
    """Runs a function under the interpreter on tensors of its own, and keeps what it did as a graph."""
    leaves, spec = flatten(host, (tuple(args), kwargs), name)
    recorder = host.recorder
    footprint = Footprint(host, roots(function, leaves))
    with SubGraph(recorder) as sub:
        sub.gathers = gathers
        sub.transformed |= transformed
        sub.why = f"{name}: a write to a tensor that the function did not make"
        given = [own(sub, i, leaf, inner) if type(leaf) is TracedTensor else leaf for i, leaf in enumerate(leaves)]
        inside_args, inside_kwargs = tree_unflatten(given, spec)
        found = host.call(f, function, list(inside_args), inside_kwargs or None)
        results, result_spec = flatten(host, found, name)
        check_results(host, name, results)
        made = tensors_of(results)
        owned = [sub.owns(one._storage) for one in made]
        metas = [one._meta for one in made]
        shared = len({id(one._storage) for one in made}) < len(made)
        sub.note(made)
        nodes = sub.finish(list(made))
        kept = [node for node in recorder.kept if node.target not in QUIET]
    del given, inside_args, inside_kwargs, found, made
    if any(one.graph is not sub.graph for node in sub.graph.nodes for one in node.all_input_nodes):
        raise host.refuse("higher-order", f"{name}: the function uses something of the graph around it", function=name)
    if footprint.changed():
        raise host.refuse("higher-order", f"{name}: the function changes something outside of it", function=name)
    body = Body(
        run=compile_source(sub.graph),
        graph=sub.graph,
        places=tuple(i for i, leaf in enumerate(leaves) if type(leaf) is TracedTensor),
        result=structure(results, result_spec),
        may_fail=any(node.op.startswith("call") and may_fail(node) for node in sub.graph.nodes),
        random=any(may_draw(node) or node not in recorder.readings.writers for node in kept),
    )
    del results
    return Captured(body, [taken(host, sub, node, name) for node in nodes], metas, owned, shared)


def own(sub: SubGraph, index: int, outer: TracedTensor, inner: Inner) -> TracedTensor:
    """The stand-in for an argument inside of the function."""
    meta = inner(index, outer)
    made = sub.input("arg", meta, owned=False)
    if meta is outer._meta:
        made._stands_for = outer._stands_for
    return made


def check_results(host: Any, name: str, results: Sequence[Any]) -> None:
    odd = next((type(one) for one in results if type(one) is not TracedTensor and type(one) not in CONSTANTS), None)
    if odd is not None:
        raise host.refuse("higher-order", f"{name}: the function returns a {odd.__qualname__}", function=name)


def taken(host: Any, sub: SubGraph, node: Any, name: str) -> Any:
    """The value of the program that a node around the body gives."""
    value = getattr(node.meta, "value", None)
    if type(value) is torch.SymInt:
        return host.recorder.symbols.wrap(value)
    found = sub.outer.get(node)
    if found is None:
        found = next((traced for traced in host.recorder.alive() if traced._node is node), None)
    if found is None:
        raise host.refuse("higher-order", f"{name}: the function uses a value that is gone", function=name)
    return found


def roots(function: Any, leaves: Sequence[Any]) -> list[Any]:
    """Where a function may reach what the program made."""
    found: list[Any] = [leaf for leaf in leaves if type(leaf) is not TracedTensor]
    waiting, known = [function], set()
    while waiting:
        one = waiting.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        kind = type(one)
        if kind is partial:
            waiting.extend([one.func, *one.args, *one.keywords.values()])
        elif kind is types.MethodType:
            waiting.extend([one.__func__, one.__self__])
        elif kind is types.FunctionType:
            found.extend([*(one.__closure__ or ()), one.__defaults__, one.__kwdefaults__])
            waiting.extend(_frames.cell_get(cell) for cell in one.__closure__ or ())
        else:
            found.append(one)
    return found


def record(host: Any, name: str, call: Callable[..., Any], given: Sequence[Any], bodies: Sequence[Captured]) -> Any:
    """Records a node that calls `call(*functions, *given)`, and gives its result for the program."""
    leaves, spec = flatten(host, tuple(given), name)
    found = Found()
    function = calling(name, call, structure(leaves, spec), [(one.body, len(one.taken)) for one in bodies], found)
    target = Target(function, "call_function", function, name)
    target.unique = True
    values = [*tensors_of(leaves), *(value for one in bodies for value in one.taken)]
    try:
        made = host.recorder.record(target, tuple(values), {})
    except Unsupported as error:
        raise host.located(error) from None
    result = found.structure
    if any(leaf is not TENSOR and type(leaf) not in CONSTANTS for leaf in result.leaves):
        raise host.refuse("higher-order", f"{name}: its result holds more than tensors", function=name)
    return result.fill(made)
