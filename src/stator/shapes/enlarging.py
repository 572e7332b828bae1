"""Sizes of which something calculated is one in a call, as the last image of a pyramid: what they are taken for.

What holds for one alone would be guarded, and each dimension that becomes one would cost a compilation. Captured with
larger sizes, the program is asked for what holds for all of them; where that does not hold for one, the capture starts
again with the sizes as they are.
"""

from __future__ import annotations

from stator.guards.path import Path
from stator.guards.relation import SIZE
from stator.shapes.symbols import Symbols

MOST = 40  # times


def enlarged(symbols: Symbols) -> frozenset[tuple[Path, int, int, int]]:
    """Tensors, dimensions, their sizes and larger ones, of which nothing is one that was met; not if there are none."""
    flat, symbols.ones.flat, symbols.ones.enlarges = symbols.ones.flat, [], False
    hints = symbols.env.backed_var_to_val
    sizes = {symbol: operand for symbol, operand in symbols.sources.items() if operand.kind == SIZE and symbol in hints}
    wanted = {hints[symbol] for number in flat for symbol in symbols.unknowns.symbols_of(number) & sizes.keys()}
    alike = [symbol for symbol in sizes if hints[symbol] in wanted and symbol not in symbols.ones.pretended]
    others = {hints[symbol] for symbol in sizes.keys() - set(alike)}
    if not alike or not set(alike).isdisjoint(symbols.strict):
        return frozenset()
    for times in range(2, MOST):
        larger = {symbol: hints[symbol] * times for symbol in alike}
        fit = all(size in symbols.env.var_to_range[symbol] and size not in others for symbol, size in larger.items())
        values = {**hints, **larger}
        if fit and all((symbols.unknowns.value(number, values) or 0) > 1 for number in flat):
            rows = ((sizes[symbol], int(hints[symbol]), int(size)) for symbol, size in larger.items())
            return frozenset((operand.path, operand.index, size, more) for operand, size, more in rows)
    return frozenset()
