"""What the program demands of sizes that the user wants to vary, in the user's words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch.export import Dim
from torch.utils import _pytree as pytree

from stator.errors import ConstraintViolation
from stator.exporting.dims import Leaf, Linear, Shapes, Wanted, show_dim
from stator.exporting.places import user_place
from stator.shapes.expressions import NoForm, Text, fold

HEAD = "dynamic_shapes promises more than the program can do:"
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
        self.divisors: dict[Any, int] = {}  # symbol -> what it must be a multiple of
        self.loose: set[Any] = set()  # symbols in relations that Dims cannot say
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
        return f"{found[0].leaf.where}.shape[{found[0].dim}]" if found else self.describe(symbol)

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
        for guard in self.guards:
            self._guard(guard, named)
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
        """A condition that was checked and is no bound."""
        expr = guard.expr
        used = [symbol for symbol in expr.free_symbols if symbol in named]
        if not used or any(self.value(symbol).is_Integer for symbol in used) or self._follows(expr):
            return
        if self._is_bound(self.env.replace(expr)):
            return
        origin = getattr(guard.sloc, "origin", None)
        for symbol in used:
            for number in divisors(expr, symbol):
                if self._divides(expr, symbol, math.lcm(number, self.divisors.get(symbol, 1)), origin):
                    return
        self.loose |= expr.free_symbols
        self.demands.append(Demand(f"it needs {self.text(expr)}, which no Dim can say", [origin]))

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

    def _follows(self, expr: Any) -> bool:
        """Whether a condition holds by bounds, derivations and divisibility alone."""
        import sympy  # heavy
        from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

        ranges = dict(self.env.var_to_range)
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
        if left in (sympy.true, sympy.false):
            return bool(left)
        if not left.free_symbols <= ranges.keys():
            return False
        found = bound_sympy(left, ranges)
        return bool(found.is_singleton() and found.lower == sympy.true)

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
        bounds = self.env.var_to_range[symbol]
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


def check(symbols: Any) -> None:
    """Raises ConstraintViolation if the program cannot do with what dynamic_shapes says."""
    facts = Facts(symbols)
    facts.find()
    if facts.demands:
        lines = [HEAD]
        for demand in facts.demands:
            lines += demand.lines()
        raise ConstraintViolation("\n".join([*lines, *Suggestion(facts).lines()]))


class Source:
    """dynamic_shapes as Python source, as the user gave them."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.names: dict[str, str] = {}  # name of a Dim -> its definition

    def dim(self, wanted: Wanted) -> str | None:
        return self.named(wanted.name) if wanted.name is not None else hint(wanted.given)

    def named(self, name: Linear) -> str:
        self.names.setdefault(name.root, show_dim(name.root, *self.shapes.dims[name.root]))
        return str(name)

    def lines(self) -> list[str]:
        tree = {name: self.source(part) for name, part in self.shapes.tree.items()}
        shapes = "{" + ", ".join(f"{name!r}: {text}" for name, text in tree.items()) + "}"
        made = [f"    {name} = {text}" for name, text in self.names.items()]
        return ["this would pass:", *made, f"    dynamic_shapes = {shapes}"]

    def source(self, tree: Any) -> str:
        if isinstance(tree, Leaf):
            return self.leaf(tree)
        if not any(leaf.dims or leaf.given is not None for leaf in pytree.tree_leaves(tree)):
            return "None"
        if isinstance(tree, dict):
            return "{" + ", ".join(f"{key!r}: {self.source(part)}" for key, part in tree.items()) + "}"
        parts = [self.source(part) for part in tree]
        if isinstance(tree, tuple):
            return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
        return "[" + ", ".join(parts) + "]"

    def leaf(self, leaf: Leaf) -> str:
        if leaf.number:
            return hint(leaf.given)
        rows = {dim: self.dim(wanted) for dim, wanted in leaf.dims.items()}
        known = {dim: text for dim, text in rows.items() if text is not None}
        return "{" + ", ".join(f"{dim}: {text}" for dim, text in known.items()) + "}" if known else "None"


class Suggestion(Source):
    """The dynamic_shapes that would pass by what is known."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts.symbols.shapes)
        self.facts = facts
        self.symbols = {(id(w.leaf), w.dim): symbol for w, symbol in facts.symbols.seen}

    def dim(self, wanted: Wanted) -> str | None:
        symbol = self.symbols.get((id(wanted.leaf), wanted.dim))
        if symbol is None:  # never looked at
            return super().dim(wanted)
        value = self.facts.value(symbol)
        if value.is_Integer:
            return None
        if wanted.name is None:
            return hint(wanted.given)
        if symbol in self.facts.loose or value.free_symbols & self.facts.loose:
            return "Dim.AUTO"
        linear = self.facts._linear(value)
        if linear is None:
            return "Dim.AUTO"
        other, scale, offset = linear
        return self.expression(other, scale, offset)

    def expression(self, symbol: Any, scale: int, offset: int) -> str | None:
        """scale * symbol + offset in terms of the Dim for the symbol."""
        name = self.facts.name(symbol)
        if name is None:
            return "Dim.AUTO"
        if symbol in self.facts.divisors:
            number = self.facts.divisors[symbol]
            return str(Linear(self.define(f"_{name.root}", symbol, number), scale * number, offset))
        if not name.is_plain:  # its own root was never seen
            root = self.named(Linear(name.root, 1, 0))
            return str(Linear(root, scale * name.scale, scale * name.offset + offset))
        return str(Linear(self.define(name.root, symbol, 1), scale, offset))

    def define(self, name: str, symbol: Any, divisor: int) -> str:
        bounds = self.facts.env.var_to_range[symbol]
        low = -(-int(bounds.lower) // divisor) if bounds.lower.is_Integer else None
        high = int(bounds.upper) // divisor if bounds.upper.is_Integer else None
        self.names[name] = show_dim(name, low, high)
        return name


class Relaxed(Source):
    """The dynamic_shapes with these Dims left to torch."""

    def __init__(self, shapes: Shapes, loose: set[str]) -> None:
        super().__init__(shapes)
        self.loose = loose

    def dim(self, wanted: Wanted) -> str | None:
        return "Dim.AUTO" if wanted.name is not None and wanted.name.root in self.loose else super().dim(wanted)

    def spec(self) -> dict[str, Any]:
        """For torch."""
        rows = {
            id(leaf): {d: Dim.AUTO if self.dim(w) == "Dim.AUTO" else w.given for d, w in leaf.dims.items()}
            for leaf in self.shapes.leaves
        }
        made: dict[str, Any] = pytree.tree_map(lambda leaf: rows[id(leaf)] or leaf.given, self.shapes.tree)
        return made


def hint(given: Any) -> str:
    """A hint as Python source."""
    bounds = [f"{word}={value}" for word in ("min", "max") if (value := getattr(given, word, None)) is not None]
    return f"Dim.{given.type.name}" + (f"({', '.join(bounds)})" if bounds else "")


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
