"""Whether a condition holds for the sizes that the user promises, as far as trying it for many of them tells."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from stator.exporting.symbols import Values
from stator.shapes.expressions import NoForm, fold

PROBED = 64  # sizes next to each other that a condition on one size is tried for
MOST = 2048  # times that a condition is tried
LARGE = (1000, 4096, 65537)  # where a size has no bound


def holds(expr: Any, sizes: Mapping[Any, int]) -> bool:
    """Whether a condition holds for sizes, by symbol; it does not where it makes no sense."""
    try:
        return bool(fold(expr, Values(sizes.__getitem__)))
    except NoForm:
        import sympy  # heavy

        found = expr.xreplace({symbol: sympy.Integer(size) for symbol, size in sizes.items()})
        return bool(found == sympy.true)
    except (ZeroDivisionError, AssertionError):  # as torch's own functions have it
        return False


def holds_everywhere(expr: Any, ranges: Mapping[Any, Any]) -> bool:
    """Whether a condition holds for all sizes within ranges, by symbol, that are tried."""
    symbols = sorted(expr.free_symbols, key=str)
    count = int(MOST ** (1 / len(symbols)))
    probes = [within(ranges[symbol], count, numbers_in(expr)) for symbol in symbols]
    return all(
        holds(expr, dict(zip(symbols, sizes, strict=True)))
        for sizes in itertools.islice(itertools.product(*probes), MOST)
    )


def bounds(expr: Any, symbol: Any, known: Any, example: int) -> tuple[int, int | None] | None:
    """From where and up to where a condition on one size holds, if it does for the sizes in between and no others."""
    low, high = int(known.lower), int(known.upper) if known.upper.is_Integer else None
    near = range(low, min(example + PROBED, example + PROBED if high is None else high) + 1)
    sizes = sorted({*near, *within(known, 2 * PROBED, numbers_in(expr))})
    held = {size: holds(expr, {symbol: size}) for size in sizes}
    failing = [size for size in sizes if not held[size]]
    below = [size for size in failing if size < example]
    above = [size for size in failing if size > example]
    if above:
        if any(held[size] for size in sizes if size > above[0]):
            return None
        high = last(expr, symbol, max(size for size in sizes if held[size]), above[0])
    first = below[-1] + 1 if below else low
    return None if high == first else (first, high)


def last(expr: Any, symbol: Any, held: int, failed: int) -> int:
    """The last size for which a condition holds, between one for which it does and one for which it does not."""
    while failed - held > 1:
        middle = (held + failed) // 2
        held, failed = (middle, failed) if holds(expr, {symbol: middle}) else (held, middle)
    return held


def within(known: Any, count: int, numbers: Sequence[int]) -> list[int]:
    """At most so many sizes within a range: the first ones, the last ones, and those next to numbers that matter."""
    low, high = int(known.lower), int(known.upper) if known.upper.is_Integer else None
    ends = LARGE if high is None else range(high, high - count // 4, -1)
    near = [number + i for number in numbers for i in (0, -1, 1)]
    sizes = [*near[: count // 4], *ends[: count // 4], *range(low, low + count)]
    fitting = [size for size in dict.fromkeys(sizes) if low <= size and (high is None or size <= high)]
    return fitting[: max(count, 2)]


def numbers_in(expr: Any) -> list[int]:
    """The numbers in an expression, and what is twice or another time as much."""
    import sympy  # heavy

    found = {abs(int(part)) for part in sympy.preorder_traversal(expr) if part.is_Integer} - {0, 1}
    return sorted({*found, *(a * b for a, b in itertools.combinations(found, 2))}, reverse=True)
