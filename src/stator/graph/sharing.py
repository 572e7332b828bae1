"""One compiled graph for captures that come to the same one: another round of a loop, other Python around it.

Two graphs are the same if the same places of the program call the same operations on inputs of the same kind, in the
same state of torch. Where inputs are symbolic, the same must be known of the symbols, and the backend must not have
decided anything about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from stator.graph.overlap import memory_of
from stator.guards.state import snapshot
from stator.tensors.settings import read_all
from stator.weak_values import WeakValues

Place = Callable[[Any], Any]  # from the location of a node to something hashable

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_VALUES = frozenset({
    int, bool, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip
_OPERATIONS = frozenset({"placeholder", "call_function", "call_method", "output"})
_ON_DEMAND = frozenset({"stack_trace", "example_value"})  # entries of `node.meta` that are no decision


class SharedGraph:
    """What a backend made of a graph; lives as long as an entry uses it."""

    __slots__ = ("__weakref__", "function", "kept", "known")

    def __init__(self, function: Callable[..., Any], key: Key) -> None:
        self.function = function
        self.kept = key.kept  # objects whose addresses are in the key
        self.known = key.known  # of the symbols


class Unique(Exception):
    """The graph cannot be compared with others."""


class Key:
    """What tells a graph from others."""

    def __init__(
        self,
        graph: fx.Graph,
        inputs: Sequence[Any],
        examples: Sequence[Any],
        place: Place,
        way: Any,
        written: Collection[int],
    ) -> None:
        self.kept: list[Any] = []
        self._numbers: dict[fx.Node, int] = {}
        self._place = place
        if any(inputs[i].layout is not torch.strided for i in written):
            raise Unique
        self._written = {memory_of(inputs[i]) for i in written}
        memory: dict[int, int] = {}
        self.symbols = Symbols(examples)
        self.known = self.symbols.known()
        kinds = tuple(self._input(*pair, memory) for pair in zip(inputs, examples, strict=True))
        tensors = [value for value in inputs if self._is_in_written(value)]
        shared = len(memory) < len(tensors)
        offsets = tuple(value.storage_offset() for value in tensors) if shared else ()
        nodes = tuple(self._node(node) for node in graph.nodes)
        self.widely = (way, kinds, offsets, nodes, snapshot()[:-1], read_all())  # whatever is known of the symbols
        self.value = (*self.widely, None if self.known is None else self.known.text())

    def is_undecided(self) -> bool:
        """Whether no more is known of the symbols than before the backend had them."""
        try:
            return self.symbols.known() == self.known
        except Unique:
            return False

    def _input(self, value: Any, example: Any, memory: dict[int, int]) -> Any:
        if type(example) is torch.SymInt:
            return int, self.symbols.text(example.node.expr)
        if type(value) is int:
            return int
        if type(value) not in _PLAIN or value.layout is not torch.strided:
            raise Unique
        in_written = self._is_in_written(value)
        sharing = memory.setdefault(memory_of(value), len(memory)) if in_written else None
        bits = (
            value.requires_grad,
            value.is_leaf,
            in_written and value._is_view(),
            value.is_conj(),
            value.is_neg(),
            value.is_inference(),
        )
        marks = tuple(sorted(name for name in vars(value) if name.startswith("_dynamo")))
        dims: Any = tuple(value.shape), value.stride()
        if is_symbolic(example):
            offset = example.storage_offset()
            dims = self.symbols.text((tuple(example.shape), example.stride(), offset if _varies(offset) else None))
        return type(value), value.dtype, value.device, dims, bits, marks, sharing

    def _is_in_written(self, value: Any) -> bool:
        """Whether an input lies in memory that the graph writes to: then it counts who shares it."""
        return bool(self._written) and isinstance(value, torch.Tensor) and memory_of(value) in self._written

    def _node(self, node: fx.Node) -> Any:
        if node.op not in _OPERATIONS or not _ON_DEMAND.issuperset(dict.keys(node.meta)):
            raise Unique
        self._numbers[node] = len(self._numbers)
        if node.op == "placeholder":
            return None
        target = node.target if isinstance(node.target, str) else self._same(node.target)
        place = self._place(getattr(node.meta, "location", None))
        return node.op, target, self._argument(node.args), self._argument(node.kwargs), place

    def _argument(self, value: Any) -> Any:
        kind = type(value)
        if kind is fx.Node:
            return self._numbers[value], fx.Node
        if kind in _VALUES:
            return kind, value
        if kind in (float, complex):
            return kind, repr(value)
        if isinstance(value, (tuple, list)):
            return kind, tuple(map(self._argument, value))
        if isinstance(value, dict):
            return kind, tuple((self._argument(name), self._argument(item)) for name, item in value.items())
        if kind is slice:
            return kind, tuple(map(self._argument, (value.start, value.stop, value.step)))
        if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            raise Unique
        return self._same(value)

    def _same(self, value: Any) -> Any:
        """By identity, for as long as the key is known."""
        self.kept.append(value)
        return id(value), object


def is_symbolic(example: Any) -> bool:
    """Whether a backend may decide something about this input that is not known yet."""
    if type(example) is torch.SymInt:
        return True
    if not getattr(example, "_has_symbolic_sizes_strides", False):
        return False
    return any(map(_varies, (*example.shape, *example.stride(), example.storage_offset())))


def _varies(number: Any) -> bool:
    """Whether it is a symbol that is not known to be one number by now."""
    return type(number) is torch.SymInt and bool(number.node.expr.free_symbols)


class Symbols:
    """The symbols in inputs, by the order in which they come."""

    def __init__(self, examples: Sequence[Any]) -> None:
        self.env: Any = None
        self._names: dict[str, str] = {}
        self._symbols: set[Any] = set()
        for example in filter(is_symbolic, examples):
            numbers = (example,) if type(example) is torch.SymInt else (*example.shape, *example.stride())
            for number in numbers:
                if type(number) is torch.SymInt:
                    self.env = number.node.shape_env
                    self._meet(number.node.expr)

    def _meet(self, expr: Any) -> None:
        self._symbols |= expr.free_symbols
        for symbol in sorted(map(str, expr.free_symbols)):
            self._names.setdefault(symbol, f"symbol{len(self._names)}")

    def text(self, value: Any) -> str:
        """What is the same text for other symbols in the same places."""
        return re.sub(r"\b[A-Za-z]\w*", lambda found: self._names.get(found[0], found[0]), str(value))

    def known(self) -> Known | None:
        """What is known of them; None without symbols."""
        env = self.env
        if env is None:
            return None
        asserts = (one.expr for found in env.deferred_runtime_asserts.values() for one in found)
        # What the program found other symbols to be is in the inputs; what a backend finds these to be is a decision.
        about = (env.replace(guard.expr) for guard in env.guards if guard.expr.free_symbols & self._symbols)
        guards = [expr for expr in about if expr.free_symbols]
        replaced = [(old, new) for old, new in env.replacements.items() if old in self._symbols]
        ranges = {self.text(symbol): env.var_to_range.get(symbol) for symbol in self._symbols}
        return Known(
            frozenset(map(self.text, guards)),
            frozenset(map(self.text, replaced)),
            ranges,
            tuple(map(self.text, asserts)),
        )


class Known(NamedTuple):
    """What a graph takes for granted of its symbols."""

    guards: frozenset[str]
    replaced: frozenset[str]
    ranges: dict[str, Any]
    asserts: tuple[str, ...]  # of sizes that only data tells, which are numbered in each capture

    def text(self) -> Any:
        return self.guards, self.replaced, self.asserts, tuple(sorted(map(str, self.ranges.items())))

    def implies(self, other: Known) -> bool:
        """Whether all that another graph takes for granted holds."""
        if not other.guards <= self.guards or (self.replaced, self.asserts) != (other.replaced, other.asserts):
            return False
        pairs = ((self.ranges[symbol], wider) for symbol, wider in other.ranges.items())
        return all(wider is None or (narrow is not None and narrow.issubset(wider)) for narrow, wider in pairs)


class Shared:
    """The graphs of a session that may serve again; it knows them weakly."""

    def __init__(self) -> None:
        self._graphs: WeakValues[Any, SharedGraph] = WeakValues()

    def clear(self) -> None:
        self._graphs.clear()

    def find(self, key: Key) -> SharedGraph | None:
        """The same graph, compiled for sizes among which those of this one are."""
        return self._graphs.get(key.value) or self._wider(key)

    def _wider(self, key: Key) -> SharedGraph | None:
        found = self._graphs.get(key.widely)
        if found is None or found.known is None or key.known is None:
            return None
        return found if key.known.implies(found.known) else None

    def add(self, key: Key, function: Callable[..., Any]) -> SharedGraph:
        made = self._graphs[key.value] = SharedGraph(function, key)
        if self._wider(key) is None:
            self._graphs[key.widely] = made
        return made


def key_of(
    graph: fx.Graph,
    inputs: Sequence[Any],
    examples: Sequence[Any],
    place: Place,
    way: Any,
    written: Collection[int],
) -> Key | None:
    """`way`: how it is compiled; `written`: inputs that it writes to. None: it cannot be shared."""
    try:
        return Key(graph, inputs, examples, place, way, written)
    except Unique:
        return None
