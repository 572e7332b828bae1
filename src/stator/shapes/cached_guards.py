"""What torch's caches on disk remember of sizes: code that a compiler made for some only must serve no others.

Torch writes that in terms of the ints that its graphs are given next to tensors. Graphs of stator take sizes from their
tensors, so here the symbols are named; they have the same names wherever the key of a cache is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SEPARATOR = "|"


def written(env: Any, produce: Callable[..., str | None]) -> str | None:
    """All that is guarded or known of the sizes and ints of an environment; None if that is nothing."""
    symbols = sorted((symbol for symbol in env.backed_var_to_val if symbol.is_integer), key=str)
    guards = [guard for guard in env.guards if guard.expr.free_symbols <= {*symbols}]
    code = produce([env.symbols.symint(symbol) for symbol in symbols], guards=guards) if symbols else None
    return code and ",".join(map(str, symbols)) + SEPARATOR + code


def hold(env: Any, text: str, evaluate: Callable[[str, list[Any]], Any]) -> bool:
    """Whether all of it holds in this call; if so, it is guarded from now on."""
    names, _, code = text.partition(SEPARATOR)
    known = {str(symbol): symbol for symbol in env.backed_var_to_val}
    if not known.keys() >= {*names.split(",")}:
        return False
    symbols = [known[name] for name in names.split(",")]
    if not evaluate(code, [int(env.backed_var_to_val[symbol]) for symbol in symbols]):
        return False
    with env.asked_exactly():
        return bool(evaluate(code, [env.symbols.symint(symbol) for symbol in symbols]))
