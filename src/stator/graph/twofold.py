"""Numbers from data that a backward pass meets under two names.

AOTAutograd traces a program twice, and each trace names such numbers anew: the gradients it is given have sizes in the
names of the first trace, what was kept of the forward pass in those of the second. Where both met, their equality was
assumed, which tells what the first name stands for. Where sums of several met, the size of the gradient is a number of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch


def unify(inputs: Sequence[Any]) -> None:
    """Replaces names that no input tells by what they are equal to, in the environment of the inputs."""
    numbers = [number for one in inputs for number in _numbers(one) if type(number) is torch.SymInt]
    if not numbers:
        return
    env = numbers[0].node.shape_env
    while True:
        exprs = [number.node.expr for number in numbers]
        told = {expr for expr in exprs if expr.is_Symbol}
        needed = set().union(*(expr.free_symbols for expr in exprs)) - told
        found = next(_equal(needed, told, _equalities(env)), None) or next(_summed(env, needed, told, exprs), None)
        if found is None:
            return
        env.rename(*found)


def _numbers(one: Any) -> Iterator[Any]:
    if isinstance(one, torch.Tensor):
        yield from one.shape
    else:
        yield one


def _equalities(env: Any) -> Iterator[Any]:
    import sympy  # heavy

    for asserts in list(env.deferred_runtime_asserts.values()):
        for one in asserts:
            expr = env.replace(one.expr)
            if isinstance(expr, sympy.Eq):
                yield expr.lhs - expr.rhs


def _equal(needed: set[Any], told: set[Any], differences: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Names, each with what it is if a difference is zero."""
    import sympy  # heavy

    for difference in differences:
        free = difference.free_symbols
        for name in needed & free:
            factor = sympy.expand(difference).coeff(name)
            rest = sympy.expand(difference - factor * name)
            value = sympy.expand(-rest / factor) if factor.is_Integer and factor != 0 else None
            if value is not None and value.free_symbols <= told and _is_whole(value):
                yield name, value


def _summed(env: Any, needed: set[Any], told: set[Any], exprs: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Names, each with what it is if the size that it is part of has a name of its own."""
    for expr in exprs:
        for name in sorted(needed & expr.free_symbols, key=str):
            if expr.coeff(name) == 1 and not (expr - name).has(name):
                with env.ignore_fresh_unbacked_symbols():
                    size = env.create_unbacked_symint()
                yield name, size.node.expr - (expr - name)


def _is_whole(value: Any) -> bool:
    return all(factor.is_Integer for factor in value.as_coefficients_dict().values())
