"""Whether elements fill their memory without gaps, as torch asks it, in operations that guards know."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from stator.shapes.expressions import NoForm


def spelled(expr: Any, values: Mapping[Any, Any]) -> Iterator[Any]:
    """Conditions that imply this one, with products of sizes for torch's indicator of dense memory.

    The order of strides is that of these values, and a condition too where it depends on symbols.
    """
    import sympy  # heavy
    from torch.utils._sympy.functions import IsNonOverlappingAndDenseIndicator as Dense

    forms: dict[Any, Any] = {}
    for question in expr.atoms(sympy.Eq, sympy.Ne):
        dense, answer = (
            (question.lhs, question.rhs) if isinstance(question.lhs, Dense) else (question.rhs, question.lhs)
        )
        if not isinstance(dense, Dense) or answer not in (0, 1):
            continue
        dims = sorted(_dims(dense), key=lambda dim: _value(dim[1], values))
        for (_, stride), (_, next_stride) in itertools.pairwise(dims):
            if stride.free_symbols | next_stride.free_symbols:
                yield sympy.Le(stride, next_stride, evaluate=False)
        filled = _filled(dims)
        forms[question] = filled if isinstance(question, sympy.Eq) == (answer == 1) else sympy.Not(filled)
    yield expr.xreplace(forms) if forms else expr


def _dims(dense: Any) -> list[tuple[Any, Any]]:
    half = len(dense.args) // 2
    return list(zip(dense.args[:half], dense.args[half:], strict=True))


def _value(stride: Any, values: Mapping[Any, Any]) -> int:
    number = stride.xreplace(values)
    if not number.is_Integer:
        raise NoForm(str(stride))
    return int(number)


def _filled(dims: list[tuple[Any, Any]]) -> Any:
    """Each stride is the extent of the dimensions with smaller ones; of one element it does not matter."""
    import sympy  # heavy

    conditions, extent = [], sympy.Integer(1)
    for size, stride in dims:
        conditions.append(sympy.Or(sympy.Eq(size, 1), sympy.Eq(stride, extent)))
        extent *= size
    return sympy.And(*conditions)
