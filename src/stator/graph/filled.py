"""Sizes marked as any are at least one to compilers that generate code; recorded operations serve empty tensors.

Strides next to an empty dimension are those of `max(1, size)`, and much that is true of all other sizes is not true of
zero: code that provides for it is slower. So compilers are given stand-ins, symbols that are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Place = tuple[int, int]  # which input, which dimension


def fill(symbols: Any, examples: list[Any]) -> list[Place]:
    """Puts stand-ins in the place of sizes of inputs, from now on; gives where those are that may be zero.

    Such a size may be an input itself: Inductor takes its symbol as it was made, and must not find two for one size.
    """
    places: dict[Any, Place] = {}
    for number, example in enumerate(examples if symbols.sizes else ()):
        for dim, size in enumerate(example.shape if isinstance(example, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and (symbol := size.node.expr) in symbols.sizes:
                places.setdefault(symbol, (number, dim))
    for symbol in places:
        stand_in = symbols.env.positive(symbol)
        symbols.stand_ins[stand_in] = symbol
        for number, example in enumerate(examples):
            if isinstance(example, torch.SymInt) and example.node._expr == symbol:
                examples[number] = symbols.symint(stand_in)
    return [place for symbol, place in places.items() if symbols.env.var_to_range[symbol].lower < 1]


def unless_empty(
    compiled: Callable[..., Any], recorded: Callable[..., Any], places: Sequence[Place]
) -> Callable[..., Any]:
    """The compiled graph where all these sizes are at least one, and the recorded operations otherwise."""
    if len(places) == 1:
        ((number, dim),) = places
        return lambda *inputs: compiled(*inputs) if inputs[number].shape[dim] else recorded(*inputs)

    def run(*inputs: Any) -> Any:
        filled = all(inputs[number].shape[dim] for number, dim in places)
        return compiled(*inputs) if filled else recorded(*inputs)

    return run
