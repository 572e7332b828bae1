"""dynamic_shapes as Python source: those that the user gave, and those that would pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.export import Dim
from torch.utils import _pytree as pytree

from stator.errors import ConstraintViolation
from stator.exporting.dims import Leaf, Linear, Shapes, Wanted, show_dim
from stator.exporting.report import Facts

HEAD = "dynamic_shapes promises more than the program can do:"
MOST = 4  # suggestions that are tried, each of which the one before lead to


def check(symbols: Any) -> None:
    """Raises ConstraintViolation if the program cannot do with what dynamic_shapes says."""
    facts = Facts(symbols)
    facts.find()
    if facts.demands:
        raise violation(facts.lines(), Suggestion(facts))


def violation(demands: list[str], suggestion: Source) -> ConstraintViolation:
    error = ConstraintViolation("\n".join([HEAD, *demands]))
    error.suggestion = suggestion.lines()
    return error


def passing(error: ConstraintViolation, attempt: Callable[[Any], Any]) -> list[str]:
    """The first suggestion that passes, as lines for people; none if none does."""
    for _ in range(MOST):
        lines = error.suggestion
        if not lines:
            break
        try:
            attempt(evaluated(lines))
        except ConstraintViolation as another:
            error = another
        except Exception:
            break
        else:
            return ["this would pass:", *(f"    {line}" for line in lines)]
    return []


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
        """Definitions of the Dims, then of `dynamic_shapes`."""
        tree = {name: self.source(part) for name, part in self.shapes.tree.items()}
        shapes = "{" + ", ".join(f"{name!r}: {text}" for name, text in tree.items()) + "}"
        return [*(f"{name} = {text}" for name, text in self.names.items()), f"dynamic_shapes = {shapes}"]

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
            return self.dim(leaf.wanted) or "None"
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
        bounds = self.facts.ranges[symbol]
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


def hint(given: Any) -> str:
    """A hint as Python source."""
    bounds = [f"{word}={value}" for word in ("min", "max") if (value := getattr(given, word, None)) is not None]
    return f"Dim.{given.type.name}" + (f"({', '.join(bounds)})" if bounds else "")


def evaluated(lines: Sequence[str]) -> Any:
    """What the lines of a suggestion give to somebody who pastes them."""
    names: dict[str, Any] = {"Dim": Dim}
    exec("\n".join(lines), names)
    return names["dynamic_shapes"]
