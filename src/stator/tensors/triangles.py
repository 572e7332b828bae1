"""`tril_indices` and `triu_indices` of a size that only data tells: the places of a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors.indexing import is_index
from stator.tensors.targets import Handler, register, target_of
from stator.tensors.traced import TracedTensor
from stator.tensors.values import number_of

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

NAMES = ("row", "col", "offset")


def _places(func: Any, cut: Any) -> Handler:
    target = target_of(func)
    assert target is not None

    def make(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sizes = dict(zip(NAMES, args, strict=False)) | {name: kwargs[name] for name in NAMES if name in kwargs}
        options = {name: value for name, value in kwargs.items() if name not in NAMES}
        sizes = {name: number_of(recorder, n) if is_index(n) else n for name, n in sizes.items()}
        known = len(args) <= len(NAMES) and not options.keys() - {"dtype", "device"}
        if not known or not any(type(n) is TracedInt and n.symbols.is_unbacked(n) for n in sizes.values()):
            return recorder.record(target, args, kwargs)
        return _made(recorder, cut, options, **sizes)

    return make


def _made(recorder: Recorder, cut: Any, options: dict[str, Any], row: Any, col: Any, offset: Any = 0) -> TracedTensor:
    """As many columns as the mask has places, in the order of its rows."""
    call = recorder.call
    ones = call(torch.ones, (row, col), {"dtype": torch.bool, "device": options.get("device")})
    places = call(torch.nonzero, (call(cut, (ones, offset)),))
    options = {"dtype": options.get("dtype") or torch.int64, "copy": True, "memory_format": torch.contiguous_format}
    made: TracedTensor = call(torch.Tensor.to, (call(torch.t, (places,)),), options)
    return made


register(torch.tril_indices, _places(torch.tril_indices, torch.tril))
register(torch.triu_indices, _places(torch.triu_indices, torch.triu))
