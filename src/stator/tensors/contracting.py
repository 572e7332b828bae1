"""Einstein sums of three and more tensors: in which order they are multiplied.

Where opt_einsum is installed, torch asks it on every call, and it looks at all sizes. Where some vary, the order that
is best for the sizes at hand serves all: it changes how fast the sum is, not what it is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch.backends import opt_einsum

from stator.shapes.scalar import TracedInt
from stator.tensors.settings import watched
from stator.tensors.targets import register, target_of
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

LEAST = 3  # tensors, of which there are several orders
WITH_PATH = torch._C._VariableFunctions.einsum


def einsum(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as it is, or with the order spelt out."""
    target = target_of(torch.functional.einsum)
    assert target is not None
    equation, operands = args[0] if args else None, args[1:]
    if len(operands) == 1 and type(operands[0]) in (list, tuple):
        operands = tuple(operands[0])
    if len(operands) >= LEAST and opt_einsum.is_available():
        watched.watch(einsum)
    if kwargs or type(equation) is not str or len(operands) < LEAST or not has_choice(operands):
        return recorder.record(target, args, kwargs)
    shapes = [tuple(map(at_hand, operand._meta.size)) for operand in operands]
    try:
        pairs = opt_einsum.get_opt_einsum().contract_path(equation, *shapes, shapes=True, optimize=opt_einsum.strategy)[
            0
        ]
    except Exception:  # the call itself says so
        return recorder.record(target, args, kwargs)
    return recorder.call(WITH_PATH, (equation, list(operands)), {"path": [*itertools.chain.from_iterable(pairs)]})


def has_choice(operands: tuple[Any, ...]) -> bool:
    """Whether torch would ask for the order of tensors whose sizes vary."""
    if not opt_einsum.enabled or not opt_einsum.is_available():
        return False
    return all(type(operand) is TracedTensor for operand in operands) and any(
        type(size) is TracedInt for operand in operands for size in operand._meta.size
    )


def at_hand(size: Any) -> int:
    if type(size) is not TracedInt:
        return int(size)
    found = size.symbols.unknowns.guessed(size.number)
    return 2 if found is None else int(found)


register(torch.functional.einsum, einsum)
