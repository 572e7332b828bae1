"""Operations on bits as arithmetic: those that a constant chooses are remainders.

`n & 6` is `n % 8 - n % 2`, also of what is negative.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

MOST_BITS = 32
MOST_RUNS = 4


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """Where the ones of a mask begin and end."""
    start = 0
    while mask >> start:
        while not mask >> start & 1:
            start += 1
        end = start
        while mask >> end & 1:
            end += 1
        yield start, end
        start = end


def _chosen(number: Any, mask: int) -> Any:
    """The bits of a number that a mask has; None if there are many gaps between them."""
    if mask < 0:
        rest = _chosen(number, ~mask)
        return None if rest is None else number - rest
    runs = list(_runs(mask))
    if len(runs) > MOST_RUNS or mask.bit_length() > MOST_BITS:
        return None
    return sum(number % (1 << end) - number % (1 << start) for start, end in runs)


def _added(times: int) -> Callable[[Any, int], Any]:
    def made(number: Any, mask: int) -> Any:
        both = _chosen(number, mask)
        return None if both is None else number + mask - times * both

    return made


def _shifted(function: Any) -> Callable[[Any, int], Any]:
    return lambda number, bits: function(number, 1 << bits) if 0 <= bits < MOST_BITS else None


# Operations on bits that are arithmetic, for a constant on the right.
BITS: dict[Any, Callable[[Any, int], Any]] = {
    operator.lshift: _shifted(operator.mul),
    operator.rshift: _shifted(operator.floordiv),
    operator.and_: _chosen,
    operator.or_: _added(1),
    operator.xor: _added(2),
}


def is_one_step(function: Any, mask: int) -> bool:
    """Whether it is one product, quotient or remainder."""
    return function in (operator.lshift, operator.rshift) or (
        function is operator.and_ and mask >= 0 and mask & (mask + 1) == 0
    )
