"""Writing nodes into an FX graph at low cost, with readable names and metadata that is computed when asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext
from torch.utils._python_dispatch import _disable_current_modes

from stator.tensors.fakes import make_fake, own_mode
from stator.tensors.plan import Group, New
from stator.tensors.targets import safe_name

_Node = fx.Node
_set = torch._C._NodeBase.__setattr__  # Node's own one is there to follow changes of args


class NodeMeta(dict[str, Any]):
    """`node.meta` with two entries made on demand: `stack_trace` and `example_value`."""

    __slots__ = ("location", "pure", "value", "warns", "writes")

    location: Any  # what the recorder's location callback gave
    value: Any  # description of the node's result, as in a plan
    warns: bool  # its warnings must name the line of the program
    pure: bool  # may be dropped when nobody uses the result
    writes: bool  # to memory that was there before

    def __init__(self, location: Any = None, value: Any = None, warns: bool = False) -> None:
        self.location = location
        self.value = value
        self.warns = warns
        self.pure = True
        self.writes = False

    def __missing__(self, key: str) -> Any:
        rule = _ON_DEMAND.get(key)
        made = rule(self) if rule is not None else None
        if made is None:
            raise KeyError(key)
        self[key] = made
        return made

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        if dict.__contains__(self, key):
            return True
        try:
            self[key]  # type: ignore[index]
        except KeyError:
            return False
        return True

    def copy(self) -> NodeMeta:
        twin = NodeMeta(self.location, self.value, self.warns)
        twin.pure, twin.writes = self.pure, self.writes
        twin.update(self)
        return twin

    __copy__ = copy

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _stack_trace(meta: NodeMeta) -> str | None:
    location = meta.location
    if location is None or isinstance(location, str):
        return location
    return location.format()


def _example_value(meta: NodeMeta) -> Any:
    """Fake tensors for the node's result, in the fake mode of the compiling backend if there is one."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    with _disable_current_modes():  # a trace that fails asks in the middle of its work, to describe the node
        return _fake(mode if mode is not None else own_mode(), meta.value)


def _fake(mode: Any, value: Any) -> Any:
    if type(value) is New:
        return make_fake(mode, value.meta)
    if type(value) is torch.SymInt:
        return value
    if type(value) is Group:
        return value.build([_fake(mode, item) for item in value.items])
    return None


_ON_DEMAND: dict[str, Callable[[NodeMeta], Any]] = {"stack_trace": _stack_trace, "example_value": _example_value}


class NodeWriter:
    """Appends nodes to one graph."""

    def __init__(self, graph: fx.Graph, location: Callable[[], Any] | None) -> None:
        self.graph = graph
        self.location = location
        self._counts: dict[str, int] = {}
        self._used = graph._graph_namespace._used_names
        self._names = graph._graph_namespace._obj_to_name
        self._table = graph._find_nodes_lookup_table
        self._append = graph._root._prepend  # in front of the root of a circular list: at the end
        self._first: fx.Node = graph._root  # first node that is no placeholder

    def add(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], base: str) -> Any:
        """What `Graph.create_node` does, without the checks that cost more than the node."""
        graph = self.graph
        name = self._name(base)
        node = _Node(graph, name, op, target, args, kwargs)
        _set(node, "meta", NodeMeta(self.location() if self.location is not None else None))
        self._names[node] = name
        self._append(node)
        self._table.insert(node)
        graph._len += 1
        if self._first is graph._root:
            self._first = node
        return node

    def placeholder(self, name: str) -> Any:
        """A graph input, after the inputs there are."""
        base = self._name(safe_name(name))
        node = _Node(self.graph, base, "placeholder", base, (), {})
        _set(node, "meta", NodeMeta())
        self._names[node] = base
        self._first._prepend(node)
        self._table.insert(node)
        self.graph._len += 1
        return node

    def item(self, node: fx.Node, index: Any) -> Any:
        """One element of a result with several."""
        return self.add("call_function", operator.getitem, (node, index), {}, "getitem")

    def _name(self, base: str) -> str:
        count = self._counts.get(base, 0)
        name = f"{base}_{count}" if count else base
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count + 1
        self._used.add(name)
        return name
