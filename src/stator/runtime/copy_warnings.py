"""`torch.tensor(tensor)` and `new_tensor(tensor)`: a copy, and a warning in the line of the program, not the graph."""

from __future__ import annotations

import types
import warnings
from typing import Any

import torch

from stator.frame import Frame
from stator.native.warn import stand_warn
from stator.tensors.arrays import TracedArray, is_array
from stator.tensors.traced import TracedTensor

TEXT = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
)
OPTIONS = {"dtype", "device"}


def copied(host: Any, f: Frame, function: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
    """The copy; None for what is no copy of a tensor or array."""
    if type(function) is not types.BuiltinFunctionType or len(args) != 1:
        return None
    is_method = function.__name__ == "new_tensor" and type(function.__self__) is TracedTensor
    like: Any
    name, like = ("tensor.new_tensor", function.__self__) if is_method else ("torch.tensor", args[0])
    given = {option: value for option, value in (kwargs or {}).items() if value is not None}
    if is_method and (type(args[0]) is TracedArray or is_array(args[0])):
        return host.call(f, torch.tensor, args, {"dtype": like._meta.dtype, "device": like._meta.device} | given)
    if type(args[0]) is not TracedTensor or not (is_method or function is torch.tensor) or not given.keys() <= OPTIONS:
        return None
    stand_warn(host, f, warnings.warn, [TEXT.format(name)], None)
    wanted = {"dtype": like._meta.dtype, "device": like._meta.device, "copy": True} | given
    return host.record(f, torch.Tensor.to, (host.record(f, torch.Tensor.detach, (args[0],), None),), wanted)
