"""The sizes that dynamic_shapes names, as symbols of a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import GetAttrKey, MappingKey, SequenceKey

from stator.errors import ConstraintViolation
from stator.exporting.dims import Leaf, Linear, Shapes, Wanted
from stator.guards import path as paths
from stator.guards.path import Path
from stator.guards.relation import TWINS
from stator.shapes.expressions import NoForm, fold
from stator.shapes.policy import Policy
from stator.shapes.relations import conditions_of
from stator.shapes.symbols import Symbols


class Named(Policy):
    """Symbols are the sizes and ints that dynamic_shapes names, and nothing else."""

    __slots__ = ("numbers", "wanted")

    def __init__(self, leaves: list[Leaf], numbers: dict[Path, Leaf]) -> None:
        super().__init__(None, [(paths.arg(0), "", 0)], unbacked=True)  # something is symbolic
        self.wanted = {id(leaf.value): leaf for leaf in leaves if leaf.dims}
        self.numbers = numbers

    def dims(self, path: Path, tensor: torch.Tensor) -> Any:
        leaf = self.wanted.get(id(tensor))
        return {} if leaf is None else {dim: row for dim, row in leaf.dims.items() if tensor.size(dim) > 1}

    def takes_int(self, path: Path, value: int) -> bool:
        return path in self.numbers

    def takes_float(self, path: Path, value: float) -> bool:
        return False


class NamedSymbols(Symbols):
    """Symbols of which some have names, and are related by them."""

    def __init__(
        self,
        origin: Callable[[], Any],
        shapes: Shapes,
        numbers: dict[Path, Leaf],
        report: Callable[[NamedSymbols], None],
    ) -> None:
        super().__init__(origin, unbacked=True)
        self.numbers = numbers
        self.env.approximate = True  # as torch.export has it
        self.shapes = shapes
        self.report = report
        self.seen: list[tuple[Wanted, Any]] = []  # each size and int that varies, and the symbol for it
        self.roots: dict[str, Any] = {}  # name of a Dim -> its symbol
        self.waiting: list[tuple[Linear, Any]] = []  # derived sizes whose root has not been seen
        self.declared: set[Any] = set()  # what holds by the names alone

    def _size(self, path: Path, dim: int, value: int, bounds: Any, now: int | None = None) -> Any:
        name = bounds.name
        known = self.roots.get(name.root) if name is not None and name.is_plain else None
        made = self.unknowns.of(known) if known is not None else super()._size(path, dim, value, bounds)
        if type(made) is int:
            return made
        symbol = self.unknowns.expr(made)
        self.seen.append((bounds, symbol))
        if name is not None and known is None:
            self._relate(name, symbol)
        return made

    def integer(self, path: Path, value: int) -> Any:
        made = super().integer(path, value)
        leaf = self.numbers[path]
        self.seen.append((leaf.wanted, next(s for s, operand in self.sources.items() if operand.path is path)))
        return made

    def _relate(self, name: Linear, symbol: Any) -> None:
        """Sizes derived from one Dim follow it."""
        before = len(self.env.guards)
        if name.is_plain:
            self.roots[name.root] = symbol
            for other, derived in self.waiting:
                if other.root == name.root:
                    self._equal(derived, symbol, other)
        elif name.root in self.roots:
            self._equal(symbol, self.roots[name.root], name)
        else:
            for other, derived in self.waiting:
                if other.root == name.root:
                    self._assume(name.scale * (self.symint(derived) - other.offset)
                                 == other.scale * (self.symint(symbol) - name.offset))  # fmt: skip
            self._assume((self.symint(symbol) - name.offset) % name.scale == 0)
            self.waiting.append((name, symbol))
        self.declared |= {guard.expr for guard in self.env.guards[before:]}

    def _equal(self, derived: Any, root: Any, name: Linear) -> None:
        self._assume(self.symint(derived) == name.scale * self.symint(root) + name.offset)

    @staticmethod
    def _assume(condition: Any) -> None:
        if not condition:
            raise ConstraintViolation("the example arguments contradict dynamic_shapes")

    def check_strict(self) -> None:
        self.report(self)

    def conditions(self) -> Iterator[tuple[Any, Any]]:
        """(expression, origin) of everything that was found out about sizes and ints of the arguments."""
        for expr, origin in conditions_of(self).items():
            if expr.free_symbols <= self.sources.keys():
                yield expr, origin

    def constants_in(self, expr: Any) -> list[Any]:
        """What implies an expression that cannot be calculated: all of its symbols are as in the example."""
        import sympy  # heavy

        return [sympy.Eq(symbol, self.env.backed_var_to_val[symbol], evaluate=False) for symbol in expr.free_symbols]


class Values:
    """Calculates an expression with sizes as they are."""

    def __init__(self, symbol: Callable[[Any], Any]) -> None:
        self.symbol = symbol

    def constant(self, value: int) -> int:
        return value

    def apply(self, name: str, args: list[Any]) -> Any:
        return _OPERATIONS[name](*args)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    **TWINS,
    "POW": lambda a, b: a**b,
    "MAX": torch.sym_max,
    "MIN": torch.sym_min,
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "NOT": lambda a: torch.sym_not(a),
}


class Condition(NamedTuple):
    """Something that must hold for the sizes of a call: an expression over symbols, and where each comes from."""

    expr: Any
    sources: dict[Any, Any]  # symbol -> operand

    def holds(self, read: Callable[[Any], Any]) -> Any:
        """Whether it does, a symbolic bool while tracing; `read` gives the number for an operand."""
        return fold(self.expr, Values(lambda symbol: read(self.sources[symbol])))

    @classmethod
    def all_of(cls, symbols: NamedSymbols) -> list[Condition]:
        """Those that can be calculated; others became equalities."""
        found = []
        for expr, _ in symbols.conditions():
            sources = {symbol: symbols.sources[symbol] for symbol in expr.free_symbols}
            try:
                fold(expr, Values(lambda symbol: 2))
            except (NoForm, ZeroDivisionError):
                found += [cls(part, sources) for part in symbols.constants_in(expr)]
            else:
                found.append(cls(expr, sources))
        return found


def number_paths(shapes: Shapes, positions: dict[str, int]) -> dict[Path, Leaf]:
    """The ints that vary by path, as a capture of the call sees them; `positions` numbers the parameters."""
    found = {}
    for leaf in shapes.leaves:
        if leaf.number and leaf.keys[0] in positions:
            path = paths.arg(positions[leaf.keys[0]])
            for key in leaf.keys[1:]:
                path = _STEPS[type(key)](path, key)
            found[path] = leaf
    return found


_STEPS: dict[type, Callable[[Path, Any], Path]] = {
    SequenceKey: lambda path, key: path.item(key.idx),
    MappingKey: lambda path, key: path.entry(key.key),
    GetAttrKey: lambda path, key: path.attr(key.name),
}
