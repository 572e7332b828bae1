"""Batch normalisation of vectors that do not lie row by row, as in `norm(x.transpose(1, 2))`.

Eager lays the result out row by row. A trace believes that it lies as the input does, and leaves out the copy that the
program makes of it afterwards: so what is traced gets its input row by row, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from stator.tensors.rules.layout import is_surely_row_major
from stator.tensors.targets import register, target_of
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

_TARGET = target_of(F.batch_norm)


def _batch_norm(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    assert _TARGET is not None
    first = args[0] if args else None
    if recorder.traces and type(first) is TracedTensor:
        meta = first._meta
        if len(meta.size) < 4 and not is_surely_row_major(meta):
            args = recorder.call(torch.Tensor.contiguous, (first,), {}), *args[1:]
    return recorder.record(_TARGET, args, kwargs)


register(F.batch_norm, _batch_norm)
