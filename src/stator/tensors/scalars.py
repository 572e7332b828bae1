"""Ints in tensors with one element: the same tensor gives the same number, and a sum of tensors the sum of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors.traced import TracedTensor

ARITHMETIC = frozenset({operator.add, operator.sub})
DIVISIONS = frozenset({torch.div, torch.divide})
SMALL = 1 << 60  # sums of numbers up to here do not overflow


class Scalars:
    """What is known about numbers in tensors; only of tensors that nobody writes to."""

    def __init__(self) -> None:
        self._numbers: dict[fx.Node, Any] = {}
        self._sums: dict[fx.Node, tuple[Any, tuple[Any, ...]]] = {}

    def note(self, function: Any, args: tuple[Any, ...], made: TracedTensor) -> None:
        """Remembers what a tensor with one element was calculated from."""
        if _is_whole(made) and all(map(_is_part, args)):
            self._sums[made._node] = function, args

    def divide(self, args: tuple[Any, ...], kwargs: dict[str, Any], made: TracedTensor) -> None:
        """Remembers the quotient of two sizes, rounded down."""
        if len(args) != 2 or kwargs.get("rounding_mode") not in ("floor", "trunc") or not _is_whole(made):
            return
        above, divisor = args
        if type(divisor) is int and divisor > 0 and type(above) in (int, TracedInt) and _is_never_negative(above):
            self.keep(made, above // divisor)

    def keep(self, traced: TracedTensor, number: Any) -> Any:
        if not traced._storage.mutated:
            self._numbers[traced._node] = number
        return number

    def find(self, traced: TracedTensor, read: Callable[[TracedTensor], Any]) -> Any:
        """The number in a tensor if it is known, or the numbers are of which it is a sum; else None."""
        if traced._storage.mutated:
            return None
        if traced._node in self._numbers:
            return self._numbers[traced._node]
        function, args = self._sums.get(traced._node, (None, ()))
        if function is None or any(type(arg) is TracedTensor and arg._storage.mutated for arg in args):
            return None
        return self.keep(traced, function(*(_small(read(arg)) if type(arg) is TracedTensor else arg for arg in args)))

    def release(self) -> None:
        self._sums.clear()


def _is_whole(tensor: TracedTensor) -> bool:
    return tensor._meta.dtype is torch.int64 and all(type(size) is int and size == 1 for size in tensor._meta.size)


def _is_never_negative(number: Any) -> bool:
    if type(number) is int:
        return number >= 0
    return number.symbols.unknowns.known(operator.ge, number.number, 0) is True


def _is_part(value: Any) -> bool:
    if type(value) is TracedTensor:
        return _is_whole(value)
    return type(value) is TracedInt or (type(value) is int and -SMALL <= value <= SMALL)


def _small(number: Any) -> Any:
    """The number, assumed not to be of the size that overflows."""
    if type(number) is TracedInt:
        for function, bound in ((operator.ge, -SMALL), (operator.le, SMALL)):
            if number.symbols.is_unbacked(number):
                number.symbols.suppose(function, number, bound)
            else:
                function(number, bound)  # which is guarded
    return number


def truth_tensor(recorder: Any, condition: TracedBool) -> TracedTensor:
    """A condition as a 0-d tensor, which meets other tensors as a bool does."""
    made: TracedTensor = recorder.call(
        torch.scalar_tensor, (condition.whole(),), {"dtype": torch.bool, "device": "cpu"}
    )
    return made
