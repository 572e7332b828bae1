"""Numbers that only the data of tensors tells: how questions about them are answered before there is any data.

Torch answers most by itself in a way that holds for every size (`guard_or_false`). What is left is answered for a
guess of each number, as if sizes were neither small nor equal by accident. Whatever was assumed is written down as an
assertion of the graph. When one does not hold, CPython runs the call.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

FIRST_GUESS, GUESS_STEP = 4099, 11  # guesses differ from symbol to symbol


class Question(Exception):
    """Torch wants to know something that only data tells."""


def guess(env: Any, symbol: Any) -> int:
    """A number that the symbol may be."""
    if symbol in env.backed_var_to_val:
        return int(env.backed_var_to_val[symbol])
    number = FIRST_GUESS + GUESS_STEP * int(symbol.name.lstrip("uz") or 0)
    bounds = env.var_to_range[symbol]
    if bounds.upper.is_Integer and number > bounds.upper:
        room = int(bounds.upper) - (int(bounds.lower) if bounds.lower.is_Integer else 0)
        number = int(bounds.upper) - room // (2 + number // GUESS_STEP)  # later ones are larger here, too
    return max(number, int(bounds.lower)) if bounds.lower.is_Integer else number


def guessed(number: Any) -> int:
    """A size of torch as a number: what it is in this call, or may be."""
    if isinstance(number, int):
        return number
    env, expr = number.node.shape_env, number.node.expr
    return int(expr.xreplace({symbol: guess(env, symbol) for symbol in expr.free_symbols}))


def answer(env: Any, condition: Any) -> bool | None:
    """Whether a condition holds for the guesses; None if it cannot be told.

    Numbers are not equal to a constant by accident; of two sizes that may be, one guess decides.
    """
    values = _guesses(env, condition)
    holds = _holds(condition, values)
    if condition.is_Relational and condition.rhs.is_Integer:
        if holds and condition.rel_op == "==":
            return all(_holds(condition, other) is not False for other in _neighbours(env, values))
        if holds is False and condition.rel_op == "!=":
            return any(_holds(condition, other) for other in _neighbours(env, values))
    return holds


def _holds(condition: Any, values: dict[Any, int]) -> bool | None:
    import sympy  # heavy

    result = condition.xreplace(values)
    if isinstance(result, (bool, int)):
        return bool(result)
    return bool(result) if result in (sympy.true, sympy.false) else None


def _guesses(env: Any, condition: Any) -> dict[Any, int]:
    """Guesses that agree with what was assumed of these symbols; the usual ones if none of those tried do."""
    symbols = sorted(condition.free_symbols, key=str)
    usual = {symbol: guess(env, symbol) for symbol in symbols}
    known = {rule.expr for symbol in symbols for rule in env.deferred_runtime_asserts.get(symbol, ())}
    known = {rule for rule in known if rule.free_symbols <= usual.keys()}
    if not known:
        return usual
    return next((made for made in _tries(env, usual) if all(_holds(rule, made) is not False for rule in known)), usual)


def _tries(env: Any, usual: dict[Any, int]) -> Iterator[dict[Any, int]]:
    """Other numbers within the bounds: spread evenly, growing or falling from symbol to symbol."""
    yield usual
    for step in (1, -1):
        yield {
            symbol: number if symbol in env.backed_var_to_val else _spread(env, symbol, place, len(usual))
            for place, (symbol, number) in enumerate(list(usual.items())[::step])
        }


def _spread(env: Any, symbol: Any, place: int, count: int) -> int:
    bounds = env.var_to_range[symbol]
    low = int(bounds.lower) if bounds.lower.is_Integer else 0
    high = int(bounds.upper) if bounds.upper.is_Integer else low + 2 * FIRST_GUESS
    return low + (high - low) * (place + 1) // (count + 1)


def _neighbours(env: Any, values: dict[Any, int]) -> Iterator[dict[Any, int]]:
    """The same numbers but for one, which is next to its guess."""
    for symbol, number in values.items():
        if symbol not in env.backed_var_to_val:
            for other in (number - 1, number + 1):
                if _within(env, symbol, other) == other:
                    yield {**values, symbol: other}


def usually(env: Any, condition: Any) -> bool | None:
    """What holds for all numbers but 0 and 1, as far as some small, large and different ones tell; None if it depends.

    Code that is right for any size is right for these two as well. What strides are multiples of, `max(1, size)`, is
    such a number by itself.
    """
    import sympy  # heavy
    from torch.utils._sympy.functions import Max

    extents = sorted((part for part in condition.atoms(Max) if sympy.S.One in part.args), key=str)
    if (size := _difference(env, condition)) is not None:
        extents.append(size)
    picks = [sympy.Dummy(f"extent{i}", integer=True, positive=True) for i in range(len(extents))]
    condition = condition.xreplace(dict(zip(extents, picks, strict=True)))
    apart = {
        pick: part for part, pick in zip(extents, picks, strict=True) if part.free_symbols & condition.free_symbols
    }
    condition = condition.xreplace(apart)  # compared with what it is made of
    symbols = sorted(condition.free_symbols, key=str)
    found = set()
    for pick in _PICKS:
        result = condition.xreplace({symbol: sympy.Integer(pick(env, symbol, i)) for i, symbol in enumerate(symbols)})
        found.add(result if isinstance(result, bool) else {sympy.true: True, sympy.false: False}.get(result))
    return found.pop() if len(found) == 1 else None


def _difference(env: Any, condition: Any) -> Any:
    """The size of a slice, such as `u1 - u0`, that a condition compares with a number: a number of its own."""
    import sympy  # heavy

    if not condition.is_Relational or not condition.rhs.is_Integer or not condition.lhs.is_Add:
        return None
    size = condition.lhs
    minus = any(term.as_coeff_Mul()[0].is_negative for term in size.args if not term.is_Integer)
    if not minus or not size.free_symbols.isdisjoint(env.backed_var_to_val):
        return None
    return size if env._maybe_evaluate_static(sympy.Ge(size, 0)) == sympy.true else None


def _within(env: Any, symbol: Any, number: int) -> int:
    """The number of a range that is closest; a symbol with a value has that."""
    if symbol in env.backed_var_to_val:
        return int(env.backed_var_to_val[symbol])
    bounds = env.var_to_range.get(symbol)
    if bounds is None:  # no symbol of torch
        return number
    if bounds.upper.is_Integer:
        number = min(number, int(bounds.upper))
    return max(number, int(bounds.lower)) if bounds.lower.is_Integer else number


_HUGE = 1 << 40
_PICKS: list[Any] = [
    lambda env, symbol, i: _within(env, symbol, 2),
    lambda env, symbol, i: _within(env, symbol, _HUGE),
    lambda env, symbol, i: _within(env, symbol, 2 + 3 * i),
    lambda env, symbol, i: _within(env, symbol, _HUGE - 5 * i),
    lambda env, symbol, i: _within(env, symbol, 7 if i % 2 else _HUGE),
    lambda env, symbol, i: _within(env, symbol, _HUGE if i % 2 else 7),
    lambda env, symbol, i: guess(env, symbol) if symbol in env.var_to_range else FIRST_GUESS + i,
]


def _relation(name: str) -> Any:
    def make(left: Any, right: Any, **options: Any) -> Any:
        import sympy  # heavy

        return getattr(sympy, name)(left, right, **options)

    return make


RELATIONS: dict[Any, Any] = {
    operator.eq: _relation("Eq"),
    operator.ne: _relation("Ne"),
    operator.lt: _relation("Lt"),
    operator.le: _relation("Le"),
    operator.gt: _relation("Gt"),
    operator.ge: _relation("Ge"),
}


def is_condition(expr: Any) -> bool:
    """Whether an expression is true or false, and no number."""
    return bool(expr.is_Relational or expr.is_Boolean)
