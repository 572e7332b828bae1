"""The nodes of a graph that give its symbolic numbers, and those that check what was assumed about them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import fx

from stator.shapes import polynomial
from stator.shapes.assumptions import Comparison, is_long
from stator.shapes.expressions import Nodes, fold
from stator.shapes.polynomial import Polynomial
from stator.shapes.symbols import Symbols
from stator.tensors import bindings
from stator.tensors.checks import assert_holds
from stator.tensors.targets import safe_name

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class NumberNodes:
    """Numbers of one recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.made: dict[Any, Any] = {}  # by expression: the node that gives it
        self._known: set[Any] = set()  # symbols that were found among them
        self.inputs: dict[Any, Any] = {}  # by symbol: the graph input, or the node that takes it from data
        self.read: dict[
            Any, tuple[Any, int]
        ] = {}  # by symbol: the traced tensor it was read from, writes to it by then
        self.sources: dict[Any, tuple[Any, Any]] = {}  # symbols from data: the node that makes it, its place in there

    @property
    def symbols(self) -> Symbols:
        symbols = self.recorder.symbols
        assert symbols is not None
        return symbols

    def of(self, expr: Any) -> Any:
        """The node (or int) for an expression of symbols; NoForm if a graph cannot say it."""
        if expr not in self.made:
            nodes = Nodes(self.symbol, self.calculation)
            self.made[expr] = self._sum(expr) if type(expr) is Polynomial else fold(expr, nodes)
        return self.made[expr]

    def _sum(self, number: Polynomial) -> Any:
        """The node for a long sum, which goes on from the longest part of it that there is."""
        terms = sorted(number.terms.items())  # the newest last, but constants
        if not terms[0][0]:
            terms.append(terms.pop(0))
        waiting = [terms.pop()]
        while len(terms) > 1 and Polynomial(dict(terms)) not in self.made:
            waiting.append(terms.pop())
        unknowns, start = self.symbols.unknowns, Polynomial(dict(terms))
        node = self.made[start] if start in self.made else self.of(unknowns.expr(start))
        while waiting:
            terms.append(waiting.pop())
            part = polynomial.made(dict(terms[-1:]))
            other = part if type(part) is int else self.of(unknowns.expr(part))
            node = self.made[Polynomial(dict(terms))] = self.calculation(operator.add, (node, other))
        return node

    def symbol(self, symbol: Any) -> Any:
        """The node that gives a symbol."""
        recorder = self.recorder
        if symbol in self.sources:
            node, path = self.sources.pop(symbol)
            found = self.inputs[symbol] = bindings.take(node, path, self.calculation, recorder.nodes.item)
            found.meta.value = self.symbols.symint(symbol)
        if symbol not in self.inputs:
            self.inputs[symbol] = recorder.number_input(str(symbol), self.symbols.symint(symbol))
        node = self.inputs[symbol]
        return node if recorder.sub is None else recorder.sub.inside(node)

    def calculation(self, func: Any, args: tuple[Any, ...]) -> Any:
        return self.recorder.nodes.add("call_function", func, args, {}, safe_name(func.__name__.partition(".")[0]))

    # ---- checks ---------------------------------------------------------------------------------

    def write_checks(self) -> None:
        """Assertions for what was assumed about numbers that the graph has made so far."""
        symbols = self.recorder.symbols
        if symbols is None or not symbols.assertions:
            return
        waiting, symbols.assertions = symbols.assertions, []
        for condition, message in waiting:
            if not self._are_known(condition.free_symbols):
                symbols.assertions.append((condition, message))
                continue
            node = self._comparison(condition) if type(condition) is Comparison else self.of(condition)
            if type(node) is not bool and type(node) is not int:
                self._check(node, message or f"assumed that {condition}")

    def _comparison(self, condition: Comparison) -> Any:
        """The node for how a long sum compares with zero."""
        sides = self.symbols.unknowns.sides(condition.difference)
        nodes = [side if type(side) is int else self.of(self._form(side)) for side in sides]
        return self.calculation(condition.function, tuple(nodes))

    def _form(self, number: Polynomial) -> Any:
        return number if is_long(number) else self.symbols.unknowns.expr(number)

    def _are_known(self, symbols: frozenset[Any]) -> bool:
        """Whether the graph can say these; once it can, it always can."""
        news = symbols - self._known
        found = {s for s in news if s in self.sources or s in self.inputs or s in self.symbols.sources}
        self._known |= found
        return len(found) == len(news)

    def _check(self, condition: Any, message: str) -> None:
        node = self.recorder.nodes.add("call_function", assert_holds, (condition, message), {}, "assert_holds")
        self.recorder.kept.add(node)

    def takers_of_data(self) -> set[fx.Node]:
        """Nodes that are given numbers which only data tells: sizes, bounds, indices that may be impossible."""
        symbols = self.recorder.symbols
        if symbols is None or not symbols.unbacked:
            return set()
        backed = symbols.env.backed_var_to_val
        made = {
            node
            for expr, node in (*self.made.items(), *self.inputs.items())
            if type(expr) is Polynomial or not expr.free_symbols <= backed.keys()
        }
        return {user for node in made if isinstance(node, fx.Node) for user in node.users} - made
