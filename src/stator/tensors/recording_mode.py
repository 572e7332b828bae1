"""The mode that shows a recorder the torch calls of native code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from stator import _frames
from stator.tensors.rows import is_metadata
from stator.tensors.targets import target_of
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class Caught(Exception):
    """A call as C hands it on to `__torch_function__`."""

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.func, self.args, self.kwargs = func, args, kwargs


class RecordingMode(TorchFunctionMode):
    """Sees the torch calls that native code makes without a traced tensor: factories, and changes of state."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _frames.apart():  # a function that the collector or the interpreter calls, wherever the program just is
            return func(*args, **(kwargs or {}))
        if self.recorder.catching:
            raise Caught(func, args, kwargs)
        if target_of(func) is None or (args and _is_real(args[0]) and is_metadata(func)):
            return func(*args, **(kwargs or {}))
        return self.recorder.call(func, args, kwargs or {})


def _is_real(value: object) -> bool:
    return isinstance(value, torch.Tensor) and type(value) is not TracedTensor
