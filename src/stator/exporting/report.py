"""What the program demands of sizes that the user wants to vary, in the user's words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from stator.exporting.dims import Linear, Wanted
from stator.exporting.places import user_place
from stator.exporting.trying import bounds, holds_everywhere
from stator.shapes.expressions import NoForm, Text, fold

MOST = 3  # lines of the program that are shown for one demand


@dataclass(eq=False)
class Demand:
    """One thing that the program needs, and the lines that need it."""

    text: str
    origins: list[Any] = field(default_factory=list)

    def lines(self) -> list[str]:
        places = list(dict.fromkeys(place for place in map(user_place, self.origins) if place is not None))
        shown = [indented(place.format(), 4) for place in places[:MOST]]
        return [f"  - {self.text}" + (":" if shown else ""), *shown]


class Facts:
    """What a capture found out about the sizes that have symbols."""

    def __init__(self, symbols: Any) -> None:
        self.symbols = symbols
        self.env = symbols.env
        self.places: dict[Any, list[Wanted]] = {}  # symbol -> the sizes it stands for
        for wanted, symbol in symbols.seen:
            self.places.setdefault(symbol, []).append(wanted)
        self.guards = [guard for guard in self.env.guards if guard.expr not in symbols.declared]
        self.ranges = dict(self.env.var_to_range)
        self.divisors: dict[Any, int] = {}  # symbol -> what it must be a multiple of
        self.loose: set[Any] = set()  # symbols in relations that Dims cannot say
        self.unsaid: dict[Any, list[tuple[str, Any]]] = {}  # conditions that Dims cannot say, by their symbols
        self.demands: list[Demand] = []

    def value(self, symbol: Any) -> Any:
        """The symbol in terms of those that are left."""
        return self.env.replace(symbol)

    def strict(self, symbol: Any) -> bool:
        return any(wanted.strict for wanted in self.places.get(symbol, ()))

    def name(self, symbol: Any) -> Linear | None:
        return next((w.name for w in self.places.get(symbol, ()) if w.name is not None), None)

    def describe(self, symbol: Any) -> str:
        """Sizes in the user's words: dimension 0 of `x` (Dim 'batch')."""
        found = self.places.get(symbol)
        if not found:
            operand = self.symbols.sources.get(symbol)
            return str(symbol) if operand is None else operand.describe()
        text = " and ".join(dict.fromkeys(map(str, found[:2]))) + (" and others" if len(found) > 2 else "")
        return f"{text} (Dim {str(found[0].name)!r})" if found[0].name is not None else text

    def text(self, expr: Any) -> str:
        """An expression over sizes."""
        try:
            return str(fold(expr, Text(self.short))).removeprefix("(").removesuffix(")")
        except NoForm:
            return str(expr)

    def short(self, symbol: Any) -> str:
        found = self.places.get(symbol)
        if not found:
            return self.describe(symbol)
        leaf, dim = found[0].leaf, found[0].dim
        return leaf.where if leaf.number else f"{leaf.where}.shape[{dim}]"

    def origins(self, *symbols: Any, exact: bool = False) -> list[Any]:
        """Lines that asked about these symbols; equalities first."""
        wanted = set(symbols)
        related = [g for g in self.guards if g.expr.free_symbols & wanted]
        if exact:
            related = [g for g in related if wanted <= g.expr.free_symbols] or related
        related.sort(key=lambda guard: type(guard.expr).__name__ != "Equality")
        return [origin for guard in related if (origin := getattr(guard.sloc, "origin", None)) is not None]

    # ---- demands --------------------------------------------------------------------------------

    def find(self) -> None:
        """Everything that contradicts what the user said."""
        for symbol in self.places:
            self._constant(symbol)
        named = [symbol for symbol in self.places if self.name(symbol) is not None]
        for symbol in named:
            self._relation(symbol)
        for guard in sorted(self.guards, key=lambda guard: len(guard.expr.free_symbols)):
            self._guard(guard, named)
        self._unsaid()
        for symbol in named:
            self._range(symbol)

    def _constant(self, symbol: Any) -> None:
        value = self.value(symbol)
        if value.is_Integer and self.strict(symbol):
            linked = {s for s, v in self.env.replacements.items() if self.value(s) == value and s in self.places}
            text = f"{self.describe(symbol)} varies, but the program works for {value} only"
            self.demands.append(Demand(text, self.origins(symbol) or self.origins(*linked)))

    def _relation(self, symbol: Any) -> None:
        """One named dimension in terms of another."""
        value = self.value(symbol)
        others = value.free_symbols - {symbol}
        if not others or value.is_Integer or self._declared(symbol, value):
            return
        name = self.name(symbol)
        if any(self.name(other) is None for other in others):  # the other one is inferred
            return
        origins = self.origins(symbol, *others, exact=True) or self.origins(symbol)
        linear = self._linear(value)
        if linear is None:
            self.loose |= {symbol, *others}
            self.demands.append(Demand(f"it needs {self.short(symbol)} == {self.text(value)}", origins))
            return
        other, scale, offset = linear
        if scale == 1 and not offset:
            text = f"{self.describe(symbol)} and {self.describe(other)} must be equal: give both the same Dim"
        else:
            said = Linear(str(self.name(other)), scale, offset)
            text = f"{self.describe(symbol)} must be {said}, where {self.name(other)} is {self.describe(other)}"
        assert name is not None
        self.demands.append(Demand(text, origins))

    def _declared(self, symbol: Any, value: Any) -> bool:
        """Whether a dimension follows its root, as the user says."""
        name = self.name(symbol)
        root = self.symbols.roots.get(name.root) if name is not None else None
        if root is None or name is None:
            return bool(name is not None and any(n.root == name.root and s != symbol for n, s in self.symbols.waiting))
        return bool(root != symbol and (value - (name.scale * self.value(root) + name.offset)) == 0)

    @staticmethod
    def _linear(value: Any) -> tuple[Any, int, int] | None:
        """(symbol, scale, offset) of an expression that a derived Dim can say."""
        (symbol, *more) = value.free_symbols
        if more:
            return None
        offset = value.xreplace({symbol: 0 * symbol})
        scale = (value - offset) / symbol
        if not (scale.is_Integer and offset.is_Integer and scale > 0):
            return None
        return symbol, int(scale), int(offset)

    def _guard(self, guard: Any, named: list[Any]) -> None:
        """A condition that was checked and is no bound; one with a size that is inferred is inferred, too."""
        expr = guard.expr
        used = [symbol for symbol in named if symbol in expr.free_symbols]
        if not used or len(used) < len(expr.free_symbols) or any(self.value(symbol).is_Integer for symbol in used):
            return
        if self._is_bound(self.env.replace(expr)) or self._follows(expr):
            return
        if self._bounds(expr, used[0]) if len(used) == 1 else holds_everywhere(*self._in_parts(expr)):
            return
        origin = getattr(guard.sloc, "origin", None)
        for symbol in used:
            for number in divisors(expr, symbol):
                both = math.lcm(number, self.divisors.get(symbol, 1))
                if self.env.backed_var_to_val[symbol] % both == 0 and self._divides(expr, symbol, both, origin):
                    return
        self.loose |= expr.free_symbols
        self.unsaid.setdefault(frozenset(expr.free_symbols), []).append((self.text(expr), origin))

    def _unsaid(self) -> None:
        """Of the conditions on the same sizes, the simplest one stands for all."""
        for rows in self.unsaid.values():
            text, _ = min(rows, key=lambda row: len(row[0]))
            more = f" (and {len(rows) - 1} more like that)" if len(rows) > 1 else ""
            self.demands.append(Demand(f"it needs {text}, which no Dim can say{more}", [origin for _, origin in rows]))

    def _divides(self, expr: Any, symbol: Any, number: int, origin: Any) -> bool:
        """Whether a condition holds once a dimension is a multiple of a number."""
        before = self.divisors.get(symbol)
        self.divisors[symbol] = number
        if self._follows(expr):
            self.demands.append(Demand(f"{self.describe(symbol)} must be a multiple of {number}", [origin]))
            return True
        if before is None:
            del self.divisors[symbol]
        else:
            self.divisors[symbol] = before
        return False

    def _bounds(self, expr: Any, symbol: Any) -> bool:
        """Whether a condition holds from some size on, up to some size or for all; that becomes the range."""
        from torch.utils._sympy.value_ranges import ValueRanges

        known = self.ranges[symbol]
        found = bounds(expr, symbol, known, int(self.env.backed_var_to_val[symbol]))
        if found is not None:
            self.ranges[symbol] = ValueRanges(found[0], known.upper if found[1] is None else found[1])
        return found is not None

    def _follows(self, expr: Any) -> bool:
        """Whether a condition holds by bounds, derivations and divisibility alone."""
        import sympy  # heavy
        from torch.utils._sympy.value_ranges import bound_sympy

        left, ranges = self._in_parts(expr)
        if left in (sympy.true, sympy.false):
            return bool(left)
        if not left.free_symbols <= ranges.keys():
            return False
        found = bound_sympy(left, ranges)
        return bool(found.is_singleton() and found.lower == sympy.true)

    def _in_parts(self, expr: Any) -> tuple[Any, dict[Any, Any]]:
        """A condition on what sizes are multiples of, and the ranges of its symbols."""
        import sympy  # heavy
        from torch.utils._sympy.value_ranges import ValueRanges

        ranges = dict(self.ranges)
        left = expr.xreplace({s: self.value(s) for s in expr.free_symbols})
        parts = {s: Linear("", number, 0) for s, number in self.divisors.items()}
        parts |= {symbol: name for name, symbol in self.symbols.waiting}
        for symbol, name in parts.items():
            if symbol in left.free_symbols:
                part = sympy.Dummy(integer=True, positive=True)
                known = ranges[symbol]
                high = (known.upper - name.offset) // name.scale if known.upper.is_Integer else known.upper
                ranges[part] = ValueRanges(max(2, -(-(known.lower - name.offset) // name.scale)), high)
                left = left.xreplace({symbol: name.scale * part + name.offset})
        return left, ranges

    @staticmethod
    def _is_bound(expr: Any) -> bool:
        """Whether a condition is a bound of one symbol, which its range knows."""
        plain = len(expr.free_symbols) == 1 and len(expr.args) == 2
        return (
            plain
            and type(expr).__name__ != "Unequality"
            and any(arg.is_Integer for arg in expr.args)
            and any(arg.is_Symbol for arg in expr.args)
        )

    def _range(self, symbol: Any) -> None:
        if self.value(symbol) != symbol or symbol in self.loose:
            return
        bounds = self.ranges[symbol]
        for wanted in self.places[symbol][:1]:
            low, high = max(wanted.min or 0, 2), wanted.max
            if bounds.lower > low:
                text = f"{self.describe(symbol)} must be at least {bounds.lower}"
                self.demands.append(Demand(text, self._bounding(symbol, True)))
            if bounds.upper.is_Integer and (high is None or bounds.upper < high):
                text = f"{self.describe(symbol)} must be at most {bounds.upper}"
                self.demands.append(Demand(text, self._bounding(symbol, False)))

    def _bounding(self, symbol: Any, low: bool) -> list[Any]:
        """Lines that set a bound, the tightest one first."""
        rows = []
        for guard in self.guards:
            if guard.expr.free_symbols == {symbol} and self._is_bound(guard.expr):
                rows.append(getattr(guard.sloc, "origin", None))
        return [origin for origin in reversed(rows) if origin is not None] or self.origins(symbol)

    # ---- what follows from them -----------------------------------------------------------------

    def lines(self) -> list[str]:
        return [line for demand in self.demands for line in demand.lines()]


def divisors(expr: Any, symbol: Any) -> list[int]:
    """Numbers by which an expression divides something that a symbol is part of, and their divisors."""
    import sympy  # heavy

    numbers = {
        int(part.args[1])
        for part in sympy.preorder_traversal(expr)
        if type(part).__name__ in ("FloorDiv", "CleanDiv", "Mod", "PythonMod")
        and part.args[1].is_Integer
        and symbol in part.args[0].free_symbols
    }
    return sorted({divisor for number in numbers for divisor in sympy.divisors(number) if divisor > 1})


def indented(text: str, width: int) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))
