"""The symbols of one capture: torch's ShapeEnv behind one small surface."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import torch

from stator.errors import ConstraintViolation, InternalError, Location, Unsupported, unsupported
from stator.guards.check import EQ, Check
from stator.guards.path import Path
from stator.guards.relation import INT, SIZE, STRIDE, Operand, Relation
from stator.shapes import polynomial
from stator.shapes.arithmetic import number_of
from stator.shapes.assumptions import Assumptions
from stator.shapes.env import Name, env_class
from stator.shapes.marks import ANY, Bounds
from stator.shapes.polynomial import Number, Polynomial
from stator.shapes.relations import relations_of
from stator.shapes.scalar import TracedInt
from stator.shapes.unbacked import is_condition

NOTHING: dict[int, int] = {}


def nowhere() -> Any:
    """Where a question comes from that a backend asks after the capture."""
    return None


def no_graph(expr: Any) -> Any:
    raise InternalError(f"{expr} is needed after its capture")


class Symbols(Assumptions):
    """Symbols, where they come from, and what has been found out about them."""

    def __init__(self, origin: Callable[[], Any], unbacked: bool = False) -> None:
        env = env_class()(duck_shape=False, allow_scalar_outputs=unbacked, allow_dynamic_output_shape_ops=unbacked)
        env.origin = origin
        env.symbols = self
        super().__init__(env, unbacked)
        self.sources: dict[Any, Operand] = {}  # by symbol
        self.names: Sequence[str] = ()  # of the values of the call, for people
        self.unsettled: Container[tuple[Path, Check]] = ()  # checks that keep failing, as in `GuardSet`
        self.calculated: dict[Any, Any] = {}  # by symbol that the entry function calculates: the function and a float
        self.strict: list[Any] = []  # symbols that the user insists on
        self.strides: list[tuple[Operand, Any, Any]] = []  # operand, expression, origin; also sizes of twins
        self.entered: dict[Path, tuple[Sequence[Any], tuple[int, ...]]] = {}  # sizes of tensors from outside
        self.metas: dict[Any, Any] = {}  # interned metadata, see tensors.meta
        self.plans: dict[Any, Any] = {}  # the part of the propagation memo that knows these symbols
        self._extents: dict[Polynomial, Number] = {}  # by size: what it multiplies strides by
        self._settled_sources: tuple[int, set[tuple[Path, str, int]]] = 0, set()
        self.asks = False  # it matters whether tensors share memory
        self.stand_ins: dict[Any, Any] = {}  # what compilers are given for these, and what it stands for
        self.makers: dict[Any, Sequence[Location]] = {}  # by symbol from data: where the program made it
        self.node: Callable[[Any], Any]  # makes a node of the graph of an expression; set by the recorder

    def release(self) -> None:
        """The capture is over. Its graph keeps the environment, which must not keep the program alive."""
        self.env.origin = nowhere
        self.stack = list
        self.node = no_graph
        self.floats = None
        self.calculated = {}

    # ---- making symbols -------------------------------------------------------------------------

    def tensor(
        self,
        path: Path,
        sizes: Sequence[int],
        strides: Sequence[int],
        dims: dict[int, Bounds],
        free: frozenset[int] = frozenset(),
        twins: Iterable[Path] = (),
        earlier: dict[int, int] = NOTHING,
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Sizes and strides of a tensor in which these dimensions are symbols, within bounds, and free strides.

        Such a size is that of the first of its twins that has the same sizes now. One that is 1 is taken to be what it
        was in an earlier call.
        """
        others = (self.entered[twin] for twin in twins if twin in self.entered)
        known = next((numbers for numbers, shape in others if shape == sizes), sizes)
        made: list[Any] = list(sizes)
        for i, bounds in dims.items():
            if type(known[i]) is int or bounds is not ANY:
                made[i] = self._size(path, i, earlier.get(i, sizes[i]), bounds, sizes[i] if i in earlier else None)
            else:
                made[i] = known[i]
                self.strides.append((Operand(path, SIZE, i), self.expr(known[i]), self.env.origin()))
        self.entered[path] = made, tuple(sizes)
        return tuple(made), self._strides(path, sizes, strides, made, free)

    def _size(self, path: Path, dim: int, value: int, bounds: Bounds, now: int | None = None) -> Any:
        """A size; `now`: what it is in this call, if that is not to be looked at."""
        from torch.utils._sympy.value_ranges import ValueRanges  # heavy

        operand = Operand(path, SIZE, dim)
        if bounds.unbacked and self.unbacked:
            return self._any_size(operand, value, bounds)
        if value in (0, 1):
            return value
        symbol = self.env.size_symbol(value, Name(operand.describe()))
        known = self.env.var_to_range[symbol]
        low = known.lower if bounds.min is None else max(bounds.min, known.lower)
        high = known.upper if bounds.max is None else bounds.max
        if not low <= value <= high:
            raise self._out_of_bounds(operand, value, low, high)
        if (low, high) != (known.lower, known.upper):
            self.env._update_var_to_range(symbol, ValueRanges(low, high))
        self.sources[symbol] = operand
        self.ones.add(symbol, now)
        if bounds.strict:
            self.strict.append(symbol)
        return self.unknowns.of(symbol)

    def _out_of_bounds(self, operand: Operand, value: int, low: Any, high: Any) -> ConstraintViolation:
        name = operand.describe(self.names)
        return ConstraintViolation(f"{name} is {value}, but was marked as within {low} and {high}")

    def _any_size(self, operand: Operand, value: int, bounds: Bounds) -> Any:
        """A size of which nothing is known but its bounds."""
        from torch.utils._sympy.numbers import int_oo  # heavy

        low, high = max(bounds.min or 0, 0), int_oo if bounds.max is None else bounds.max
        if not low <= value <= high:
            raise self._out_of_bounds(operand, value, low, high)
        symbol = self.from_data().node.expr
        self.env._constrain_range_for_size(symbol, low, high)
        self.sources[symbol] = operand
        self.sizes[symbol] = value
        if value > 1:
            self.env.var_to_hint_override[symbol] = value
        return self.unknowns.of(symbol)

    def extent(self, size: Any) -> Any:
        """What a size multiplies strides by: an empty dimension counts as one."""
        if type(size) is int or self.unknowns.hint(size) is not None or self.unknowns.known(operator.ge, size, 1):
            return size
        found = self._extents.get(size)
        if found is None:
            from torch.utils._sympy.functions import Max  # heavy

            found = self._extents[size] = self.unknowns.of(Max(1, self.unknowns.expr(size)))
        return found

    def _stride(self, path: Path, dim: int, value: int) -> Any:
        """A stride that is a symbol: neither 0 nor 1."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic  # heavy

        operand = Operand(path, STRIDE, dim)
        symbol = self.env.create_symbol(value, Name(operand.describe()), dynamic_dim=DimDynamic.DYNAMIC)
        if not symbol.is_Symbol:
            return value
        self.sources[symbol] = operand
        return self.unknowns.of(symbol)

    def _strides(
        self, path: Path, sizes: Sequence[int], strides: Sequence[int], made: list[Any], free: frozenset[int]
    ) -> tuple[Any, ...]:
        """A stride that is the extent of other dimensions is so by relation; others are free, or what they are."""
        known: dict[int, Any] = {}
        result: list[Any] = list(strides)
        for stride, back in sorted((stride, -i) for i, stride in enumerate(strides)):
            i = -back
            if i in free:
                result[i] = self._stride(path, i, stride)
                if known:  # elements that share memory are guarded to go on so, others not to
                    self.compare(operator.ge, self.traced(result[i]), self.traced(known[max(known)]))
            else:
                result[i] = known.get(stride, stride)
            if type(result[i]) is not int and i not in free:
                self.strides.append((Operand(path, STRIDE, i), self.expr(result[i]), self.env.origin()))
            extent = self.extent(made[i])
            times = sizes[i] if extent is made[i] else max(sizes[i], 1)
            known[times * stride] = polynomial.multiply(extent, result[i])
        return tuple(result)

    def integer(self, path: Path, value: int) -> Any:
        """A symbolic int."""
        return self.traced(self.unknowns.of(self._unspecified(Operand(path, INT), value)))

    def is_calculated_of(self, expr: Any, symbol: Any) -> bool:
        """Whether the entry function needs a symbol to calculate the symbols of an expression."""
        pending: list[Any] = [self.calculated[part] for part in expr.free_symbols if part in self.calculated]
        seen: set[Any] = set()
        while pending:
            number = pending.pop()
            pending.extend(arg for arg in number.args if type(arg) is type(number))
            ints = [self.unknowns.settled(arg.number) for arg in number.args if type(arg) is TracedInt]
            found = set().union(*(self.unknowns.symbols_of(part) for part in ints if type(part) is not int)) - seen
            if symbol in found:
                return True
            seen |= found
            pending.extend(self.calculated[part] for part in found if part in self.calculated)
        return False

    def has_ints(self, symbols: Iterable[Any]) -> bool:
        """Whether one of these is an int of the program."""
        return any(symbol in self.sources and self.sources[symbol].kind == INT for symbol in symbols)

    def rounded(self, operand: Operand, number: Any) -> Any:
        """A symbolic int that is calculated of floats, the same one each time."""
        symbol = next((symbol for symbol, known in self.sources.items() if known == operand), None)
        if symbol is None:
            symbol = self._unspecified(operand, number.value)
            self.calculated[symbol] = number
        return self.traced(self.unknowns.of(symbol))

    def _unspecified(self, operand: Operand, value: int) -> Any:
        """A symbol that may be any int."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic  # heavy

        symbol = self.env.create_unspecified_symbol(value, Name(operand.describe()), DimDynamic.DYNAMIC)
        self.sources[symbol] = operand
        return symbol

    def from_data(self, low: int | None = None, high: int | None = None) -> torch.SymInt:
        """An int that only the data of a tensor tells; the caller says which node gives it."""
        made: torch.SymInt = self.env.create_unbacked_symint()
        self.env.pending_fresh_unbacked_symbols.clear()
        self.makers[made.node.expr] = self.stack()
        if low is not None:
            from torch.utils._sympy.numbers import int_oo  # heavy

            self.env.constrain_symbol_range(made.node.expr, low, int_oo if high is None else high)
        return made

    def count(self, most: int | None) -> tuple[Any, Any]:
        """A size that only data tells: its symbol, and the number."""
        symbol = self.from_data().node.expr
        self.env._constrain_range_for_size(symbol, 0, most)
        return symbol, self.traced(self.unknowns.of(symbol))

    # ---- numbers from data ----------------------------------------------------------------------

    def is_unbacked(self, value: Any) -> bool:
        """Whether a symbolic int depends on data."""
        return self.unbacked and self.unknowns.hint(self.unknowns.settled(number_of(value))) is None

    def named(self, symbol: Any) -> Any:
        """A symbol as the captured program may see it."""
        return self.traced(self.unknowns.of(symbol))

    def undecided(self, expr: Any, stack: Sequence[Location] = ()) -> Unsupported:
        """The error for a number or condition whose value is needed; it belongs to the place that made it."""
        break_id = "data-dependent-branch" if is_condition(expr) else "data-dependent-value"
        made = [self.makers[symbol] for symbol in expr.free_symbols if symbol in self.makers]
        stack = stack or (made[0] if made else self.stack())
        return unsupported(break_id, "its value is needed before the graph has run", stack=stack, function="Python")

    # ---- using them -----------------------------------------------------------------------------

    def decay(self, value: Any) -> Any:
        """The value of an expression, guarded."""
        number = self.unknowns.settled(number_of(value))
        if self.unbacked and self.unknowns.hint(number) is None:
            raise self.undecided(self.expr(number))
        if type(number) is int:
            return number
        if self.unsettled:
            self._refuse_unsettled(number)
        return self.plain(number).node.guard_int("", 0)

    def _refuse_unsettled(self, number: Polynomial) -> None:
        """An int that was another constant in most entries is left to CPython."""
        for symbol in self.unknowns.symbols_of(number):
            source = self.sources.get(symbol)
            if source is not None and source.kind == INT and (source.path, EQ) in self.unsettled:
                detail = f"{source.describe(self.names)} differs from call to call"
                raise unsupported("outside-type", detail, type="changing int")

    # ---- what must hold -------------------------------------------------------------------------

    def relations(self) -> Iterator[tuple[Relation, Any]]:
        """Everything that was assumed about the symbols, with its origin; to be asked for once nobody adds to it."""
        self.env.freeze()
        return relations_of(self)

    def settled_sources(self) -> set[tuple[Path, str, int]]:
        """Symbols that turned out to have one value only: where they come from, their kind, their dimension."""
        version = self.env._replacements_version_counter
        if self._settled_sources[0] != version:
            single = (symbol for symbol, value in self.env.replacements.items() if value.is_Integer)
            rows = (self.sources[s] for s in single if s in self.sources and s not in self.calculated)
            self._settled_sources = version, {lesson for row in rows for lesson in row.lessons()}
        return self._settled_sources[1]

    def check_strict(self) -> None:
        """A dimension marked as varying must not have become a constant."""
        for symbol in self.strict:
            value = self.env.replacements.get(symbol)
            if value is not None and value.is_Integer:
                origins = (g.sloc for g in self.env.guards if symbol in g.expr.free_symbols)
                origin = next((found for place in origins if (found := getattr(place, "origin", None))), None)
                where = "" if origin is None else "\n" + Location(origin[0], 2 * origin[1]).format()
                name = self.sources[symbol].describe(self.names)
                text = f"{name} was marked as varying, but the program works for {value} only"
                raise ConstraintViolation(f"{text}; use maybe_mark_dynamic to allow that{where}")
