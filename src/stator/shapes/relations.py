"""What was assumed about the symbols of a capture, as relations that guards check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.guards.relation import INT, WHOLE, Operand, Relation
from stator.shapes.dense import spelled
from stator.shapes.expressions import NoForm, Postfix, Text, fold

if TYPE_CHECKING:
    from stator.shapes.symbols import Symbols

LARGEST = 1 << 62  # ints beyond stay constants


def relations_of(symbols: Symbols) -> Iterator[tuple[Relation, Any]]:
    """Relations with their origins."""
    for expr, origin in conditions_of(symbols).items():
        for part, operands in _compiled(symbols, expr):
            yield _relation(symbols, part, operands), origin
    for operand, expr, origin in symbols.strides:
        yield _stride_relation(symbols, operand, expr), origin


def conditions_of(symbols: Symbols) -> dict[Any, Any]:
    """Conditions with their origins: bounds, replacements, guards."""
    import sympy  # heavy

    found: dict[Any, Any] = {}
    for symbol, operand in symbols.sources.items():
        bounds, places = symbols.env.var_to_range[symbol], symbols.env.var_to_range_sloc[symbol]
        if bounds.lower.is_Integer:
            origin = getattr(places.lower, "origin", None) if bounds.lower > 2 else symbols.ones.places.get(symbol)
            found[sympy.Ge(symbol, bounds.lower, evaluate=False)] = origin
        if bounds.upper.is_Integer:
            found[sympy.Le(symbol, bounds.upper, evaluate=False)] = getattr(places.upper, "origin", None)
        if operand.kind in (INT, WHOLE):
            found.setdefault(sympy.Ge(symbol, -LARGEST, evaluate=False), None)
            found.setdefault(sympy.Le(symbol, LARGEST, evaluate=False), None)
    for stand_in, symbol in symbols.stand_ins.items():
        bounds = symbols.env.var_to_range[stand_in]
        if bounds.lower > 1:
            found.setdefault(sympy.Ge(symbol, bounds.lower, evaluate=False), None)
        if bounds.upper.is_Integer:
            found.setdefault(sympy.Le(symbol, bounds.upper, evaluate=False), None)
    for guard in symbols.env.guards:
        found.setdefault(guard.expr.xreplace(symbols.stand_ins), getattr(guard.sloc, "origin", None))
    for condition, origin in symbols.required:
        found.setdefault(condition, origin)
    for name, expr in symbols.env.replacements.items():
        symbol, value = symbols.stand_ins.get(name, name), expr.xreplace(symbols.stand_ins)
        if symbol in symbols.sources and value != symbol and value.free_symbols <= symbols.sources.keys():
            found.setdefault(sympy.Eq(symbol, value, evaluate=False), None)
    return found


def _compiled(symbols: Symbols, expr: Any) -> Iterator[tuple[Any, dict[Any, int]]]:
    """The expression, or if it has no form the equalities that imply it."""
    import sympy  # heavy

    try:
        found = []
        for part in spelled(expr, symbols.env.backed_var_to_val):
            operands: dict[Any, int] = {}
            fold(part, _postfix(operands))
            found.append((part, operands))
        yield from found
    except NoForm:
        for symbol in expr.free_symbols:
            value = symbols.env.backed_var_to_val[symbol]
            yield sympy.Eq(symbol, value, evaluate=False), {symbol: 0}


def _postfix(operands: dict[Any, int]) -> Postfix:
    return Postfix(lambda symbol: operands.setdefault(symbol, len(operands)))


def _relation(symbols: Symbols, expr: Any, operands: dict[Any, int]) -> Relation:
    code = fold(expr, _postfix(operands))
    text = fold(expr, Text(lambda symbol: f"{{{operands[symbol]}}}"))
    return Relation(tuple(symbols.sources[symbol] for symbol in operands), tuple(code), text)


def _stride_relation(symbols: Symbols, operand: Operand, expr: Any) -> Relation:
    operands: dict[Any, int] = {}
    algebra = _postfix(operands)
    code = fold(expr, algebra)
    names = {symbol: f"{{{number}}}" for symbol, number in operands.items()}
    text = fold(expr, Text(names.__getitem__))
    number = len(operands)
    code = algebra.apply("EQ", [algebra.symbol(operand), code])
    sources = [symbols.sources[symbol] for symbol in operands if symbol is not operand]
    return Relation((*sources, operand), tuple(code), f"{{{number}}} == {text}")
