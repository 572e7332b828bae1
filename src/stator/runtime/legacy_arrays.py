"""Tensors that legacy constructors make of arrays: `torch.Tensor(array)`, `torch.LongTensor([array[0], 2])`."""

from __future__ import annotations

from typing import Any

import torch

from stator.frame import Frame
from stator.native.rows import standin
from stator.runtime import arrays
from stator.runtime.torch_standins import LEGACY, stand_legacy_tensor
from stator.tensors.array_calls import np
from stator.tensors.arrays import TracedArray
from stator.tensors.modes import default_device


def is_array(value: Any) -> bool:
    """An array that has rows, or a list or tuple with arrays or numpy's numbers."""
    if type(value) is TracedArray:
        return bool(value.sizes)
    if type(value) is np.ndarray:
        return value.ndim > 0 and arrays.is_plain(value)
    return type(value) in (list, tuple) and arrays.holds_arrays(value) and arrays.is_plain(value)


def make_legacy(host: Any, f: Frame, cls: Any, args: list[Any], kwargs: Any) -> Any:
    """`torch.FloatTensor(array)`: the memory of the array if it has this dtype, as with `torch.as_tensor`."""
    if len(args) != 1 or kwargs or default_device() is not None or not is_array(args[0]):
        return stand_legacy_tensor(host, f, cls, args, kwargs)
    dtype = torch.get_default_dtype() if cls is torch.Tensor else cls.dtype
    return arrays.make_tensor(host, f, torch.as_tensor, args, {"dtype": dtype})


if np is not None:
    standin(*LEGACY)(make_legacy)
