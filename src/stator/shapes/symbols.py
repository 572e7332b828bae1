"""The symbols of one capture: torch's ShapeEnv behind one small surface."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from stator.errors import ConstraintViolation, InternalError, Location, Unsupported, unsupported
from stator.guards.check import EQ, Check
from stator.guards.path import Path
from stator.guards.relation import INT, SIZE, STRIDE, Operand, Relation
from stator.shapes import polynomial
from stator.shapes.calculations import COUNT, Kind
from stator.shapes.calculations import INT as ANY_INT
from stator.shapes.env import Name, env_class
from stator.shapes.marks import ANY, Bounds
from stator.shapes.ones import Ones
from stator.shapes.polynomial import Number, Polynomial
from stator.shapes.relations import relations_of
from stator.shapes.scalar import LARGEST_POWER, TracedBool, TracedInt
from stator.shapes.unbacked import RELATIONS, guess, is_condition
from stator.shapes.unknowns import CHOICES, QUESTIONS, Unknowns

NOTHING: dict[int, int] = {}
SHORT = 3  # longer sums are not given to sympy where that can be
SOLVABLE = 16  # nor equations of more numbers, which it would solve for one of them
LARGEST_VALUE = 1 << 55  # guesses beyond are no sizes of tensors


def nowhere() -> Any:
    """Where a question comes from that a backend asks after the capture."""
    return None


def no_graph(expr: Any) -> Any:
    raise InternalError(f"{expr} is needed after its capture")


@dataclass(frozen=True)
class Comparison:
    """How a sum of many numbers compares with zero; torch is not asked about it."""

    function: Any
    difference: Polynomial
    free_symbols: frozenset[Any]

    def __str__(self) -> str:
        return f"a sum of {len(self.difference.terms)} numbers is within its bound"


class NotKnown(Exception):
    """A question about a number whose value this call does not tell."""


class Symbols:
    """Symbols, where they come from, and what has been found out about them."""

    def __init__(self, origin: Callable[[], Any], unbacked: bool = False) -> None:
        env = env_class()(duck_shape=False, allow_scalar_outputs=unbacked, allow_dynamic_output_shape_ops=unbacked)
        env.origin = origin
        env.symbols = self
        self.env = env
        self.unknowns = Unknowns(env)
        self.ones = Ones(env, self.unknowns)
        self.sources: dict[Any, Operand] = {}  # by symbol
        self.names: Sequence[str] = ()  # of the values of the call, for people
        self.unsettled: Container[tuple[Path, Check]] = ()  # checks that keep failing, as in `GuardSet`
        self.calculated: dict[Any, Any] = {}  # by symbol that the entry function calculates: the function and a float
        self.strict: list[Any] = []  # symbols that the user insists on
        self.strides: list[tuple[Operand, Any, Any]] = []  # operand, expression, origin; also sizes of twins
        self.entered: dict[Path, tuple[Sequence[Any], tuple[int, ...]]] = {}  # sizes of tensors from outside
        self.metas: dict[Any, Any] = {}  # interned metadata, see tensors.meta
        self.plans: dict[Any, Any] = {}  # the part of the propagation memo that knows these symbols
        self._ints: dict[Polynomial, TracedInt] = {}  # what the program sees
        self._plain: dict[Polynomial, Any] = {}  # what torch calculates with
        self._answers: dict[Any, bool] = {}  # to questions that made guards
        self._results: dict[Any, Number] = {}  # of operations that are not done here
        self._extents: dict[Polynomial, Number] = {}  # by size: what it multiplies strides by
        self._settled_sources: tuple[int, set[tuple[Path, str, int]]] = 0, set()
        self._known_only = False
        self.bounded = False  # some bounds of slices are assumed to lie inside
        self.clamps = False  # they are not: they end where the dimension does
        self.asks = False  # it matters whether tensors share memory
        self.doubt: str | None = None  # why the capture cannot be trusted: C code may have seen what is no int
        self.floats: Any = None  # the symbolic floats of the capture
        self.unbacked = unbacked  # whether data may become symbols
        self.answering = unbacked  # capture goes on: assumptions can still become part of the graph
        self.assertions: list[tuple[Any, str]] = []  # conditions to be checked when the graph runs, and what to say
        self.message = ""
        self.sizes: dict[Any, int] = {}  # sizes of inputs that nothing may follow from
        self.stand_ins: dict[Any, Any] = {}  # what compilers are given for these, and what it stands for
        self.required: list[tuple[Any, Any]] = []  # conditions on them alone, which are guards; and their origins
        self.makers: dict[Any, Sequence[Location]] = {}  # by symbol from data: where the program made it
        self.stack: Callable[[], Sequence[Location]] = list  # the user's frames; set by the host
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
            raise ConstraintViolation(
                f"{operand.describe(self.names)} is {value}, but was marked as within {low} and {high}"
            )
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
            raise ConstraintViolation(
                f"{operand.describe(self.names)} is {value}, but was marked as within {low} and {high}"
            )
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

    def condition(self, expr: Any) -> torch.SymBool:
        """A condition as torch's own."""
        from torch.fx.experimental.sym_node import SymNode  # heavy

        return torch.SymBool(SymNode(expr, self.env, bool, None))

    def truth(self, expr: Any) -> Any:
        """What a condition on numbers from data is: known in any case, or not yet."""
        known = self.env._maybe_evaluate_static(expr)
        return TracedBool(expr, self, self.stack()) if known is None else bool(known)

    def combined(self, function: Any, left: TracedBool, right: TracedBool | bool) -> Any:
        """A condition on conditions."""
        import sympy  # heavy

        join = sympy.And if function is operator.and_ else sympy.Or
        return self.truth(join(left.expr, right.expr if type(right) is TracedBool else right))

    def assume(self, condition: Any, message: str = "") -> None:
        """The graph holds only if this does."""
        condition = condition.expr if type(condition) is TracedBool else condition
        if type(condition) is not bool:
            self.message = message
            self.env.guard_or_defer_runtime_assert(condition, "assumed")
            self.message = ""

    def suppose(self, function: Any, a: Any, b: Any, message: str = "") -> None:
        """The graph holds only if this comparison of numbers does; what follows for one symbol is not asked of the env,
        which thinks long."""
        left, right = number_of(a), number_of(b)
        if self.unknowns.known(function, left, right) is not None:
            return
        difference = self.unknowns.difference(left, right)
        asked, opposite = QUESTIONS[function]
        if self._answers.get((asked, difference)) is (not opposite):
            return
        self.message = message
        most = SOLVABLE if function is operator.eq else SHORT
        if is_long(difference, most) and not self.sizes:
            self.require(Comparison(function, difference, self.unknowns.symbols_of(difference)))
            self._note(asked, difference, not opposite)
            return
        sides = self.unknowns.both(difference)
        if self._narrowed(function, difference):
            self.require(RELATIONS[function](*sides, evaluate=False))
        else:
            self.env.guard_or_defer_runtime_assert(RELATIONS[function](*sides), "assumed")
        self.message = ""
        self._note(asked, difference, not opposite)

    def _narrowed(self, function: Any, difference: Polynomial) -> bool:
        """Narrows the range of the one symbol that a difference is made of; False if it is none."""
        from torch.utils._sympy.numbers import int_oo  # heavy
        from torch.utils._sympy.value_ranges import ValueRanges

        symbol = self.unknowns.only(difference)
        if symbol is None or function not in _RANGES:
            return False
        low, high = _RANGES[function](-difference.terms.get((), 0))
        known = self.env.var_to_range[symbol]
        low = known.lower if low is None else max(known.lower, low)
        high = known.upper if high is None else min(known.upper, high)
        if low >= high and high is not int_oo:  # the env takes that for a constant, or for a contradiction
            return False
        self.env.var_to_range[symbol] = ValueRanges(low, high)
        self.env._update_version_counter()
        self.unknowns.look_again((symbol,))
        return True

    def _note(self, asked: Any, difference: Polynomial, answer: bool) -> None:
        """Remembers how a number compares with zero, and what that says about its opposite."""
        self._answers[asked, difference] = answer
        turned = polynomial.multiply(difference, -1)
        if asked is operator.eq:
            self._answers[asked, turned] = answer
        else:
            self._answers[_TURNED[asked], turned] = not answer
        self.unknowns.holds(asked, difference, answer)
        if asked is operator.eq and answer:
            self.unknowns.equal(difference)

    def require(self, condition: Any) -> None:
        """A condition that was assumed: a guard if the inputs tell, else to be checked when the graph runs."""
        values = {**self.env.backed_var_to_val, **self.sizes} if self.sizes else {}
        if not self.sizes or not condition.free_symbols <= values.keys():
            self.assertions.append((condition, self.message))
        elif condition.xreplace(values):
            self.required.append((condition, self.env.origin()))
        else:
            self.doubt = f"{condition} was assumed of a size that was marked as any"

    def within(self, bound: Any, low: Any, size: Any) -> Any:
        """A bound of a slice that only data tells, assumed to lie inside or put there; counted from the start."""
        self.bounded = True
        if self._is_from_end(bound, size):
            self.suppose(operator.lt, bound, 0)
            bound = bound + size
        else:
            self.suppose(operator.ge, bound, 0)
        if self.clamps:
            return self.clamped(bound, low, size)
        self.suppose(operator.ge, bound, low)
        self.suppose(operator.le, bound, size)
        return bound

    def clamped(self, bound: Any, low: Any, size: Any) -> Any:
        """What Python makes of a bound that is not negative: it ends where the dimension does."""
        least = self._computed(torch.sym_min, (number_of(bound), number_of(size)))
        return self._computed(torch.sym_max, (number_of(least), number_of(low)))

    def _is_from_end(self, bound: Any, size: Any) -> bool:
        """Whether a bound is rather negative: if the numbers that it is made of are about half of the size."""
        number, whole = map(self.unknowns.settled, (number_of(bound), number_of(size)))
        if self.unknowns.known(operator.ge, number, 0) or self._answers.get((operator.lt, number)) is False:
            return False
        length = self.unknowns.guessed(whole)
        return self._seems_negative(self.unknowns.doubtful(number), length) and self._seems_negative(number, length)

    def _seems_negative(self, number: Number, length: int | None) -> bool:
        if type(number) is int:
            return number < 0
        guesses = {symbol: self._halved(symbol, length) for symbol in self.unknowns.symbols_of(number)}
        value = self.unknowns.value(number, guesses)
        return value is not None and value < 0

    def _halved(self, symbol: Any, length: int | None) -> int:
        """A guess of a symbol as part of a bound: about half of the size, if only data tells."""
        value = guess(self.env, symbol)
        if length is None or symbol in self.env.backed_var_to_val:
            return value
        return min(value, max(length // 2, self._least(symbol)))

    def _least(self, symbol: Any) -> int:
        low = self.env.var_to_range[symbol].lower
        return int(low) if low.is_Integer else 1

    def undecided(self, expr: Any, stack: Sequence[Location] = ()) -> Unsupported:
        """The error for a number or condition whose value is needed; it belongs to the place that made it."""
        break_id = "data-dependent-branch" if is_condition(expr) else "data-dependent-value"
        made = [self.makers[symbol] for symbol in expr.free_symbols if symbol in self.makers]
        stack = stack or (made[0] if made else self.stack())
        return unsupported(break_id, "its value is needed before the graph has run", stack=stack, function="Python")

    # ---- using them -----------------------------------------------------------------------------

    def wrap(self, value: Any) -> Any:
        """A result of torch as the captured program may see it."""
        if type(value) is torch.SymInt:
            return self.traced(self.unknowns.of(value.node.expr))
        if type(value) is torch.SymBool:
            expr = value.node.expr
            return bool(value) if expr.free_symbols <= self.env.backed_var_to_val.keys() else self.truth(expr)
        return value

    def traced(self, number: Number) -> Any:
        """A number as the captured program may see it: an int, or a stand-in for one."""
        number = self.unknowns.settled(number)
        if type(number) is int:
            return number
        found = self._ints.get(number)
        if found is None:
            found = self._ints[number] = TracedInt(number, self)
        return found

    def plain(self, number: Number) -> Any:
        """A number as torch may see it."""
        if type(number) is int:
            return number
        found = self._plain.get(number)
        if found is None:
            hint = self.unknowns.hint(number)
            found = self._plain[number] = self.env.create_symintnode(self.unknowns.expr(number), hint=hint)
        return found

    def values(self, sizes: Sequence[Number], strides: Sequence[Number], offset: Number) -> list[Any]:
        """Values in this call, or guesses, for what nobody looks at; torch's own where no tensor is like that."""
        numbers = (*sizes, *strides, offset)
        values = [self.unknowns.guessed(number) for number in numbers]
        if all(value is not None and 0 <= value < LARGEST_VALUE for value in values):
            extents = zip(values[: len(sizes)], values[len(sizes) : -1], strict=True)
            if sum(size * stride for size, stride in extents) < LARGEST_VALUE:  # type: ignore[operator, misc]
                return values
        return [self.plain(n) if self.unknowns.hint(n) is None else self.unknowns.hint(n) for n in numbers]

    def expr(self, number: Number) -> Any:
        """A number as an expression, by what is known now."""
        number = self.unknowns.settled(number)
        if type(number) is int:
            import sympy  # heavy

            return sympy.Integer(number)
        return self.unknowns.expr(number)

    def compute(self, function: Any, *args: Any) -> Any:
        """The result of an operator on symbolic ints and ints."""
        numbers = tuple(map(number_of, args))
        if self.unbacked and function not in _SUMS and self.unknowns.is_long(function, *numbers):
            return self._shortened(function, numbers)
        return self._computed(function, numbers)

    def extreme(self, function: Any, *args: Any) -> Any:
        """The largest or smallest of symbolic ints and ints."""
        numbers = tuple(map(number_of, args))
        if self.unbacked and self.unknowns.is_long(function, *numbers):
            return self._shortened(function, numbers)
        return functools.reduce(functools.partial(self.compute, function), args)

    def are_many(self, function: Any, lengths: Sequence[Any]) -> bool:
        """Whether data tells some of these numbers, and there are more than sympy can well take the largest of."""
        return self.unbacked and self.unknowns.is_long(function, *map(number_of, lengths))

    def choose(self, function: Any, made: Any, lengths: Sequence[Any]) -> None:
        """Takes note that a number from data is the largest or smallest of others."""
        self.unknowns.choose(function, number_of(made), tuple(map(number_of, lengths)))

    def _computed(self, function: Any, numbers: tuple[Number, ...]) -> Any:
        made = self._calculated(function, numbers)
        if made is None:
            made = self._results.get((function, numbers))
            if made is None:
                result = function(*map(self.plain, numbers))
                if type(result) not in (int, torch.SymInt):
                    return self.wrap(result)
                made = result if type(result) is int else self.unknowns.of(result.node.expr)
                self._results[function, numbers] = made
        return self.traced(made)

    def _shortened(self, function: Any, numbers: tuple[Number, ...]) -> Any:
        """The result as a number of its own, which Python calculates in the graph."""
        divisor = numbers[-1] if function is operator.mod else None
        if type(divisor) is int and divisor > 0:
            kind = Kind(int, 0, divisor - 1)
        else:
            lows = [self.unknowns.bounds(number)[0] for number in numbers]
            kind = COUNT if all(low is not None and low >= 0 for low in lows) else ANY_INT
        made = self.floats.evaluate(_PLAIN.get(function, function), tuple(map(self.traced, numbers)), kind)
        if function in CHOICES:
            self.choose(function, made, numbers)
        return made

    def _calculated(self, function: Any, numbers: tuple[Number, ...]) -> Number | None:
        """What a polynomial can say."""
        direct = _DIRECT.get(function)
        if direct is not None:
            return direct(*numbers)
        if function is operator.pow:
            base, exponent = numbers
            small = type(exponent) is int and 0 <= exponent <= LARGEST_POWER and len(polynomial.terms_of(base)) < 3
            return polynomial.power(base, exponent) if small else None
        if function in (operator.floordiv, operator.mod):
            left, right = map(self.unknowns.settled, numbers)
            if type(right) is int and right > 0:
                return (self.unknowns.floor if function is operator.floordiv else self.unknowns.rest)(left, right)
            if self.unknowns.known(operator.ne, right, 0):
                exact = self.unknowns.exact(left, right)
                return exact if exact is None or function is operator.floordiv else 0
        return None

    def compare(self, function: Any, a: Any, b: Any) -> Any:
        """Whether a comparison of numbers holds; guarded unless it does in any case, or only data tells."""
        left, right = number_of(a), number_of(b)
        known = self.unknowns.known(function, left, right)
        if known is not None:
            return known
        difference = self.unknowns.difference(left, right)
        if self.unbacked and not self._known_only and self.unknowns.hint(difference) is None:
            return self.truth(RELATIONS[function](*self.unknowns.both(difference)))
        return self._ask(function, difference)

    def follows(self, function: Any, a: Any, b: Any) -> None:
        """A comparison that is known to hold by what is guarded already."""
        asked, opposite = QUESTIONS[function]
        difference = self.unknowns.difference(number_of(a), number_of(b))
        if type(difference) is Polynomial:
            self.unknowns.holds(asked, difference, not opposite)

    def is_answered(self, function: Any, a: Any, b: Any) -> bool:
        """Whether a comparison holds or not is known, or guarded, or for data to tell: nothing would be asked."""
        left, right = number_of(a), number_of(b)
        if self.unknowns.known(function, left, right) is not None:
            return True
        difference = self.unknowns.difference(left, right)
        asked = QUESTIONS[function][0]
        known = self._answers.get((asked, difference)) is not None or self._implied(asked, difference) is not None
        return known or self.unknowns.hint(difference) is None

    def settled(self, function: Any, a: Any, b: Any) -> bool | None:
        """Whether a comparison holds in any case or is guarded to, or not; None: it has not been asked."""
        left, right = number_of(a), number_of(b)
        known = self.unknowns.known(function, left, right)
        if known is not None:
            return known
        difference = self.unknowns.difference(left, right)
        asked, opposite = QUESTIONS[function]
        answer = self._answers.get((asked, difference))
        if answer is None:
            answer = self._implied(asked, difference)
        return None if answer is None else answer is not opposite

    def _ask(self, function: Any, difference: Polynomial) -> bool:
        """Lets the env decide how a number compares with zero."""
        asked, opposite = QUESTIONS[function]
        answer = self._answers.get((asked, difference))
        if answer is None:
            answer = self._implied(asked, difference)
        if answer is None:
            if self._known_only and self.unknowns.hint(difference) is None:
                if asked is operator.eq and _is_special(difference):
                    return opposite
                raise NotKnown(str(difference))
            answer = self.ones.decides(asked, difference, 0)
        if answer is None:
            relation = RELATIONS[asked](*self.unknowns.both(difference), evaluate=False)
            answer = bool(self.condition(relation))
            self._note(asked, difference, answer)
        return answer is not opposite

    def _implied(self, asked: Any, difference: Polynomial) -> bool | None:
        """What other answers about the same number say."""
        for other, found, says in _IMPLIED[asked]:
            if self._answers.get((other, difference)) is found:
                return says
        if asked is not operator.eq and self._answers.get((operator.eq, difference)) is False:
            low, high = self.unknowns.bounds(difference)
            return False if low == 0 else True if high == 0 else None
        return None

    @contextmanager
    def known_only(self) -> Iterator[None]:
        """A context in which a question about a value that this call does not tell raises `NotKnown`.

        Except whether it is 0 or 1: no, as torch has it, which only matters to strides that are arbitrary then.
        """
        before, self._known_only = self._known_only, True
        try:
            yield
        finally:
            self._known_only = before

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

    def symint(self, symbol: Any) -> Any:
        """The symbol as torch's own symbolic int."""
        value = self.env.backed_var_to_val.get(symbol)
        return self.env.create_symintnode(symbol, hint=None if value is None else int(value))

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


def is_long(number: Number, most: int = SHORT) -> bool:
    """Whether a number is a sum of so many that sympy takes long."""
    return type(number) is Polynomial and len(number.terms) > most


def _is_special(difference: Polynomial) -> bool:
    """Whether a difference is zero only where a product of unknowns is 0 or 1."""
    factors = [c for monomial, c in difference.terms.items() if monomial]
    return len(factors) == 1 and difference.terms.get((), 0) in (0, -factors[0])


def number_of(value: Any) -> Number:
    """A symbolic int or an int as a number."""
    kind = type(value)
    if kind is TracedInt:
        return value.number
    if kind is torch.SymInt:
        return value.node.shape_env.symbols.unknowns.of(value.node.expr)
    return value if kind is int or kind is Polynomial else int(value)


# What a comparison with a border says about the least and the largest value.
_RANGES: dict[Any, Callable[[int], tuple[int | None, int | None]]] = {
    operator.ge: lambda border: (border, None),
    operator.gt: lambda border: (border + 1, None),
    operator.le: lambda border: (None, border),
    operator.lt: lambda border: (None, border - 1),
}
_TURNED: dict[Any, Any] = {operator.lt: operator.le, operator.le: operator.lt}  # x < 0 unless -x <= 0

# Question -> another one, its answer, and what follows from it.
_IMPLIED: dict[Any, list[tuple[Any, bool, bool]]] = {
    operator.eq: [(operator.lt, True, False), (operator.le, False, False)],
    operator.lt: [(operator.le, False, False), (operator.eq, True, False)],
    operator.le: [(operator.lt, True, True), (operator.eq, True, True)],
}

_DIRECT: dict[Any, Callable[..., Number]] = {
    operator.add: polynomial.add,
    operator.sub: polynomial.subtract,
    operator.mul: polynomial.multiply,
    operator.neg: lambda a: polynomial.multiply(a, -1),
}
_SUMS = frozenset({operator.add, operator.sub, operator.neg})  # they are no longer than their parts together
_PLAIN = {torch.sym_max: max, torch.sym_min: min}
