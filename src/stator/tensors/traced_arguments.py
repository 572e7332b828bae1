"""What becomes of the arguments of some operations where a backend traces.

Batch normalisation of vectors, as in `norm(x.transpose(1, 2))`, powers of a number, `2 ** x.t()`, and truth values
that are drawn with one probability lay their results out row by row, whatever their input does. A trace believes that
the result lies as the input does, and leaves out the copy that the program makes of it afterwards: so what is traced
gets its input row by row, too. Deviations of all elements are told all dimensions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from stator.shapes.scalar import TracedInt
from stator.tensors.rules.layout import is_filled, is_surely_row_major
from stator.tensors.signals import UnsupportedOp
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

_BELOW_IMAGES = 4  # dimensions
_ANY = 1 << 30


def _in_rows(
    place: int, below: int, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Arguments with the tensor at `place` row by row, if only numbers come before and it has few dimensions."""
    if len(args) <= place or type(args[place]) is not TracedTensor:
        return args
    meta = args[place]._meta
    if any(type(one) is TracedTensor for one in args[:place]) or len(meta.size) >= below or is_surely_row_major(meta):
        return args
    return *args[:place], recorder.call(torch.Tensor.contiguous, (args[place],), {}), *args[place + 1 :]


def _normal_in_place(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Torch draws other numbers into memory with gaps; a trace draws them apart, without gaps."""
    if args and type(args[0]) is TracedTensor and not is_filled(args[0]._meta.size, args[0]._meta.stride):
        raise UnsupportedOp("Tensor.normal_", "normal numbers drawn into memory with gaps", "random-state")
    return args


def _over_all(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Without dimensions, torch's formula for the gradient takes the number of elements for a constant."""
    has_dims = "dim" in kwargs or (len(args) > 1 and type(args[1]) is not bool)
    if has_dims or not args or type(args[0]) is not TracedTensor:
        return args
    meta = args[0]._meta
    if not meta.requires_grad or not any(type(size) is TracedInt for size in meta.size):
        return args
    return args[0], tuple(range(len(meta.size))), *args[1:]


_DEVIATIONS = (torch.std, torch.var, torch.std_mean, torch.var_mean, torch.Tensor.std, torch.Tensor.var)
CALLS: dict[Any, Callable[[Recorder, tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]] = {
    F.batch_norm: partial(_in_rows, 0, _BELOW_IMAGES),
    torch.bernoulli: partial(_in_rows, 0, _ANY),
    torch.Tensor.bernoulli: partial(_in_rows, 0, _ANY),
    operator.pow: partial(_in_rows, 1, _ANY),
    torch.pow: partial(_in_rows, 1, _ANY),
    torch.float_power: partial(_in_rows, 1, _ANY),
    torch.Tensor.normal_: _normal_in_place,
    **dict.fromkeys(_DEVIATIONS, _over_all),
}
