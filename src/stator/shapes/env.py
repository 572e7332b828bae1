"""Torch's ShapeEnv as stator uses it: it knows the place in the captured program, and answers for numbers from data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._guards import SLoc, Source

from stator.shapes import cached_guards
from stator.shapes.answers import Remembering, remembering
from stator.shapes.unbacked import Question, answer, is_condition, usually
from stator.shapes.unloaded import drop_idle_trace, unvalidated

USUAL = 8192  # what compilers may take a size for that only data tells
TRIED = "sizevars.expect_true"  # how Inductor asks for what it needs to generate code in a certain way

# Signs of relations with the sides exchanged, and what they say of the left side: its least and its largest value.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_BOUNDS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "<": lambda number: (None, number - 1),
    "<=": lambda number: (None, number),
    ">": lambda number: (number + 1, None),
    ">=": lambda number: (number, None),
    "==": lambda number: (number, number),
}


class Place(SLoc):
    """Where in the user's program a guard comes from."""

    def __init__(self, origin: Any) -> None:
        super().__init__(None, None)
        object.__setattr__(self, "origin", origin)


class Name(Source):
    """What torch knows of where a symbol comes from: a name."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_text", name)

    @property
    def name(self) -> str:
        return str(self._text)

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return type(other) is Name and other.name == self.name


@functools.cache
def env_class() -> Any:
    """The class of environments, made when the first symbol is."""
    import sympy  # heavy
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, ValueRangesSLoc
    from torch.utils._sympy.functions import Max, Mod, PythonMod
    from torch.utils._sympy.symbol import SymT, make_symbol
    from torch.utils._sympy.value_ranges import ValueRanges

    def _is_calculated(expr: Any) -> bool:
        """Whether a question compares sizes that were calculated."""
        return bool((expr.is_Relational or isinstance(expr, sympy.Or)) and expr.has(sympy.core.function.Application))

    def _is_sum(expr: Any) -> bool:
        """Whether a sum or a difference, as `n - 2`, is compared with a number."""
        return bool(expr.is_Relational and expr.args[0].is_Add and expr.args[1].is_Integer)

    def _asks_for_one(a: Any, b: Any) -> bool:
        """Whether two numbers, or strides, are equal only if a size is 1: one is a multiple of the other."""
        if 1 in (a, b):
            return True
        if b.is_zero and isinstance(
            a, (Mod, PythonMod, sympy.Mod)
        ):  # x % (x * n): is it a multiple of more than itself?
            b, a = a.args
        if 0 in (a, b):
            return False
        return any(quotient != 1 and quotient.as_numer_denom()[1] == 1 for quotient in (a / b, b / a))

    def _asks_for_several(expr: Any) -> bool:
        """Whether a number is compared with 1 or 2, to know whether there is more than one element."""
        limit = {"<": 2, ">=": 2, ">": 1, "<=": 1}.get(expr.rel_op)
        return limit is not None and expr.args[1] == limit

    def _bounded(expr: Any) -> tuple[Any, Any, Any] | None:
        """The symbol of a relation with a number, its least and its largest value by that."""
        if not expr.is_Relational or expr.rel_op not in _MIRRORED:
            return None
        left, sign, right = expr.lhs, expr.rel_op, expr.rhs
        if left.is_Integer:
            left, sign, right = right, _MIRRORED[sign], left
        if not left.is_Symbol or not left.is_integer or not right.is_Integer:
            return None
        return left, *_BOUNDS[sign](right)

    def _unless_empty(expr: Any) -> Any:
        """A question about strides without regard to empty dimensions, which count as one: those are arbitrary, too."""
        extents = [extent for extent in expr.atoms(Max) if len(extent.args) == 2 and 1 in extent.args]
        if not extents or not expr.is_Relational or expr.rel_op not in ("==", "!="):
            return expr
        return expr.func(
            *(side.xreplace({e: max(e.args, key=lambda n: n != 1) for e in extents}) for side in expr.args)
        )

    STATIC: Any = ShapeEnv._maybe_evaluate_static
    drop_idle_trace()
    # An environment with answers of its own.
    Own = type("Own", (ShapeEnv,), {**remembering(ShapeEnv), **unvalidated(ShapeEnv)})

    class Env(Own):  # type: ignore[misc, valid-type]
        """A ShapeEnv whose guards carry the place in the captured program, which it need not search the stack for.

        What it assumes about numbers from data is handed to the symbols.
        """

        origin: Callable[[], Any]
        symbols: Any  # the `Symbols` whose environment it is
        choosing = False  # torch chooses code for an operation: what it asks does not matter to the result
        captured = False  # who asks from now on is a backend
        laying_out = False  # it only matters to the strides of results whether a size is 1
        ordering = False  # which of two strides is larger is a matter of taste
        exact = False  # how many dimensions there are, or whether they are new, depends on whether a size is 1
        approximate = False  # the layout of results may be that of the example
        settled: dict[Any, bool]  # what guards say of the questions that they answer
        looked = 0  # at so many guards for that

        def _answered(self, expr: Any) -> bool | None:
            """What a guard says: where any answer would do, none may be another one, torch may ask until it is that."""
            if self.looked != len(self.guards):
                settled = self.__dict__.setdefault("settled", {})
                for guard in self.guards[self.looked :]:
                    settled[guard.expr], settled[sympy.Not(guard.expr)] = True, False
                self.looked = len(self.guards)
            return self.settled.get(expr) if self.looked else None

        def evaluate_sym_node(self, sym_node: Any, size_oblivious: bool = False, fallback_value: Any = None) -> Any:
            if self.choosing and fallback_value is not None:
                with self.suppress_guards():
                    return super().evaluate_sym_node(sym_node, size_oblivious, fallback_value)
            known = self._foretold(sym_node, fallback_value)
            return super().evaluate_sym_node(sym_node, size_oblivious, fallback_value) if known is None else known

        def _foretold(self, sym_node: Any, fallback_value: Any) -> bool | None:
            """The answer to a question about sizes that were calculated or may be one, if no relation is needed."""
            expr, ones = sym_node.expr, self.symbols.ones
            may_be_one, calculated = ones.are_among(expr), _is_calculated(expr)
            if calculated:
                known: bool | None = self.symbols.unknowns.foretold(_unless_empty(expr) if self.captured else expr)
                if known is not None:
                    return known
            if (known := self._answered(expr)) is not None:
                return known
            hinted = expr.is_Relational and sym_node.has_hint()
            asked = self.captured or self.laying_out
            free = calculated or may_be_one or self._counts(expr) or (asked and _is_sum(expr))
            if hinted and free and self._is_arbitrary(expr, calculated):
                return bool(sym_node.hint)
            if fallback_value is not None and self._is_general(sym_node, fallback_value):
                return bool(fallback_value)
            if hinted and calculated:
                ones.look(expr)
            if not may_be_one:
                return None
            if fallback_value is not None and not self.exact:
                usual = ones.would_be(expr)
                free = self.captured or (expr.is_Relational and expr.rel_op not in ("==", "!="))
                if usual is fallback_value or (free and usual is not None):
                    return bool(fallback_value)
            return ones.foretells(expr) if hinted and self._maybe_evaluate_static(expr) is None else None

        def evaluate_expr(
            self, orig_expr: Any, hint: Any = None, fx_node: Any = None, size_oblivious: bool = False,
            fallback_value: bool | None = None, **options: Any,
        ) -> Any:  # fmt: skip
            """Inductor, which does not ask by numbers, has code for all sizes behind the answer that it can do with."""
            if hint is None and self.captured and not self.exact and (fallback_value is not None or self.ordering):
                usual = self.symbols.ones.would_be(orig_expr)
                if usual is not None and self._maybe_evaluate_static(orig_expr) is None:
                    known = usual if fallback_value is None else fallback_value
                    return sympy.true if known else sympy.false
            return super().evaluate_expr(orig_expr, hint, fx_node, size_oblivious, fallback_value, **options)

        def _is_general(self, sym_node: Any, answer: bool) -> bool:
            """Whether a backend, which has code for all sizes behind this answer, is given it without a guard.

            That is so for sizes that were calculated: where this call has the same answer, and where one may be 1.
            Of the operations of the program it only matters to strides whether one is 1, see `is_one` in layout.py.
            """
            expr = sym_node.expr
            parts = expr.args if isinstance(expr, (sympy.And, sympy.Or)) else (expr,)
            ones = self.symbols.ones
            if self.exact or not all(
                part.is_Relational and (_is_calculated(part) or ones.are_among(part) or self._counts(part))
                for part in parts
            ):
                return False
            agrees = sym_node.has_hint() and bool(sym_node.hint) == answer
            if self.origin() is not None and not agrees:
                return False
            if all(part.rel_op in ("==", "!=") and _asks_for_one(*part.args) for part in parts):
                return self._maybe_evaluate_static(expr) is None
            return agrees and self.origin() is None

        def _counts(self, expr: Any) -> bool:
            """Whether it is about ints of the program, where these are only used as sizes."""
            return (self.laying_out or self.captured) and self.symbols.has_ints(expr.free_symbols)

        def _is_arbitrary(self, expr: Any, calculated: bool) -> bool:
            """Whether numbers that differ in this call are compared, and that they may be equal does not matter.

            A backend asks that to take a shorter way. What would matter to results was asked by the same code of torch
            when the operation was captured, and is known. Where results are laid out, it must be due to a size of 1.
            """
            equality = expr.rel_op in ("==", "!=")
            if self.captured:
                arbitrary = (equality and calculated) or _asks_for_one(*expr.args) or _asks_for_several(expr)
            else:
                arbitrary = self.laying_out and (_asks_for_one(*expr.args) or _asks_for_several(expr))
            if not arbitrary or self._maybe_evaluate_static(expr) is not None:
                return False
            left, right = (side.xreplace(self.backed_var_to_val) for side in expr.args)
            if not left.is_number or not right.is_number:  # its hint is a compiler's, not of this call
                return False
            return bool(left > 1 if _asks_for_several(expr) else left != right)

        @contextmanager
        def asked_exactly(self) -> Iterator[None]:
            """No answer without a guard, unless it is known."""
            before = self.exact, self.captured, self.choosing
            self.exact, self.captured, self.choosing = True, False, False
            try:
                yield
            finally:
                self.exact, self.captured, self.choosing = before

        @contextmanager
        def sorting(self) -> Iterator[None]:
            """Strides are put into an order that only matters to speed."""
            self.ordering = True
            try:
                yield
            finally:
                self.ordering = False

        def produce_guards_expression(self, placeholders: Any, **options: Any) -> str | None:
            return cached_guards.written(self, super().produce_guards_expression)

        def evaluate_guards_expression(self, code: str, args: Any) -> bool:
            return cached_guards.hold(self, code, super().evaluate_guards_expression)

        def _by_bounds(self, expr: Any, **options: Any) -> Any:
            """A symbol that nothing but its bounds is known of, compared with a number: sympy need not think."""
            found = None if any(options.values()) else _bounded(expr)
            if found is None or not self._is_free(found[0]):
                return STATIC.__wrapped__(self, expr, **options)
            symbol, least, most = found
            known = self.var_to_range[symbol]
            if (least is None or known.lower >= least) and (most is None or known.upper <= most):
                return sympy.true
            if (least is not None and known.upper < least) or (most is not None and known.lower > most):
                return sympy.false
            return None

        _maybe_evaluate_static = Remembering(STATIC, _by_bounds)

        def _is_free(self, symbol: Any) -> bool:
            """Whether a symbol is in no guard, assertion or equality so far."""
            bounded = symbol in self.var_to_range and symbol in self.backed_var_to_val
            met = self.symbol_guard_counter[symbol] or self.deferred_runtime_asserts or symbol in self.replacements
            return bounded and not met

        def _refine_ranges(self, expr: Any) -> None:
            """A symbol compared with a number has its bounds at once: sympy thinks long about how to solve that."""
            found = _bounded(expr)
            if found is None or found[0] in self.replacements or found[0] not in self.var_to_range:
                super()._refine_ranges(expr)
                return
            symbol, least, most = found
            known = self.var_to_range[symbol]
            lower = known.lower if least is None or least <= known.lower else least
            upper = known.upper if most is None or most >= known.upper else most
            if (lower, upper) == (known.lower, known.upper):
                return
            self._update_var_to_range(symbol, ValueRanges(lower, upper))
            if self.var_to_range[symbol].is_singleton():
                self._set_replacement(symbol, self.var_to_range[symbol].lower, "only one value is left")
            self._update_version_counter()

        def _generate_unique_id(self, source_name: str) -> int:
            """The next number: to look for a free one near the hash of a name takes as long as there are symbols."""
            self.unique_ids.add(number := len(self.unique_ids))
            return number

        def size_symbol(self, value: int, source: Source) -> Any:
            """What `create_symbol` makes for a size, without comparing it with one: sympy thinks long about that."""
            symbol = make_symbol(SymT.SIZE, self._generate_unique_id(source.name), positive=True, integer=True)
            place = self._get_stack_summary()[0]
            self.source_to_var[source.name] = symbol
            self.backed_var_to_val[symbol] = sympy.Integer(value)
            self.var_to_sources[symbol] = [source]
            self.var_to_range[symbol] = ValueRanges(1, self._default_value_range(False).upper)
            self.var_to_range_sloc[symbol] = ValueRangesSLoc(place, place)
            self.symbol_guard_counter[symbol] = 0
            self.counter["create_symbol"] += 1
            return symbol

        def create_unbacked_symint(self, source: Source | None = None) -> Any:
            """With a hint for compilers: Inductor does not fuse loops over sizes of which it has none."""
            made = super().create_unbacked_symint(source)
            self.var_to_hint_override[made.node.expr] = USUAL
            return made

        def positive(self, symbol: Any) -> Any:
            """A stand-in for a size that only data tells, from now on: the same, but not zero, as sympy knows, too."""
            stand_in = make_symbol(SymT.UNBACKED_INT, self.unbacked_symint_counter, integer=True, positive=True)
            self.unbacked_symint_counter += 1
            known = self.var_to_range[symbol]
            self.var_to_range[stand_in] = ValueRanges(max(known.lower, 1), known.upper)
            self.var_to_range_sloc[stand_in] = self.var_to_range_sloc[symbol]
            self.var_to_stack[stand_in] = self.var_to_stack[symbol]
            if symbol in self.var_to_hint_override:
                self.var_to_hint_override[stand_in] = self.var_to_hint_override[symbol]
            self.rename(symbol, stand_in)
            return stand_in

        def _set_replacement(self, a: Any, tgt: Any, msg: str) -> None:
            """A number that is calculated of another one is not put in its place: it would be calculated of itself."""
            if not self.symbols.is_calculated_of(tgt, a):
                super()._set_replacement(a, tgt, msg)

        def rename(self, symbol: Any, value: Any) -> None:
            """A symbol is this value from now on, whatever is known of the bounds of both."""
            self.replacements[symbol] = value
            self._replacements_version_counter += 1
            self._update_version_counter()

        def _get_stack_summary(self, is_debug: bool = False, framework_loc: str | None = None) -> tuple[Any, str]:
            return Place(self.origin()), ""

        def _make_data_dependent_error(self, *args: Any, **kwargs: Any) -> Any:
            return Question() if self.symbols.answering else super()._make_data_dependent_error(*args, **kwargs)

        def _evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return super()._evaluate_expr(orig_expr, *args, **kwargs)
            except Question:
                pass
            except GuardOnDataDependentSymNode:  # a backend chooses code, which must do for every size
                general = usually(self, orig_expr) if self.symbols.unbacked and is_condition(orig_expr) else None
                if general is None:
                    raise
                return sympy.true if general else sympy.false
            holds = answer(self, orig_expr) if is_condition(orig_expr) else None
            if holds is None:
                raise super()._make_data_dependent_error(orig_expr, orig_expr)
            self.guard_or_defer_runtime_assert(orig_expr if holds else sympy.Not(orig_expr), "assumed")
            return sympy.true if holds else sympy.false

        def _rename_unbacked_to(self, orig_s: Any, new_s: Any) -> None:
            """A number that a compiler meets again; of operations that it merged, the numbers are one."""
            known = self.replacements.get(orig_s)
            if known is None or not known.is_Symbol or known in self.backed_var_to_val:
                super()._rename_unbacked_to(orig_s, new_s)
            elif self.replace(new_s) != self.replace(known):
                self._set_replacement(new_s, known, "merged")

        def guard_or_defer_runtime_assert(self, orig_expr: Any, msg: str, fx_node: Any = None) -> bool:
            if msg == TRIED and self.symbols.unbacked and usually(self, orig_expr) is False:
                return False  # it has another way, as for sizes that it knows
            known = self.num_deferred_runtime_asserts
            result: bool = super().guard_or_defer_runtime_assert(orig_expr, msg, fx_node)
            if self.num_deferred_runtime_asserts != known and self.symbols.answering:
                self.symbols.require(orig_expr)
                self.symbols.unknowns.look_again(orig_expr.free_symbols)
            return result

    return Env
