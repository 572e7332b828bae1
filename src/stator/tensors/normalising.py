"""Operations that lay their results out row by row, whatever their input does.

Batch normalisation of vectors, as in `norm(x.transpose(1, 2))`, powers of a number, `2 ** x.t()`, and truth values
that are drawn with one probability, which a trace would take for those drawn in place. It believes
that the result lies as the input does, and leaves out the copy that the program makes of it afterwards: so what is
traced gets its input row by row, too.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from stator.tensors.rules.layout import is_surely_row_major
from stator.tensors.targets import Target, register, target_of
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

_BELOW_IMAGES = 4  # dimensions
_ANY = 1 << 30


def _in_rows(
    target: Target, place: int, below: int, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The call, with the tensor at `place` row by row if nothing but numbers comes before and it has few dimensions."""
    inputs = args[: place + 1]
    *numbers, last = inputs or (None,)
    if recorder.traces and type(last) is TracedTensor and not any(type(one) is TracedTensor for one in numbers):
        meta = last._meta
        if len(inputs) > place and len(meta.size) < below and not is_surely_row_major(meta):
            args = *numbers, recorder.call(torch.Tensor.contiguous, (last,), {}), *args[place + 1 :]
    return recorder.record(target, args, kwargs)


_PLACES = {
    F.batch_norm: (0, _BELOW_IMAGES),
    torch.bernoulli: (0, _ANY),
    torch.Tensor.bernoulli: (0, _ANY),
    operator.pow: (1, _ANY),
    torch.pow: (1, _ANY),
    torch.float_power: (1, _ANY),
}
for _func, (_place, _below) in _PLACES.items():
    _target = target_of(_func)
    assert _target is not None
    register(_func, partial(_in_rows, _target, _place, _below))
