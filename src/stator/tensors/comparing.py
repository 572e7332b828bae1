"""`torch.equal` and `torch.allclose`: conditions that the graph tells, as long as nobody branches on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.tensors.signals import DataDependent
from stator.tensors.traced import TracedTensor
from stator.tensors.values import number_of

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

BRANCH = "data-dependent-branch"


def equal(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Tensors of other sizes differ; of others, all elements must be the same."""
    left, right = _pair("torch.equal", recorder, args)
    if len(args) != 2 or kwargs:
        raise DataDependent("torch.equal", "", BRANCH)
    sizes, others = left._meta.size, right._meta.size
    if len(sizes) != len(others) or any(size != other for size, other in zip(sizes, others, strict=True)):
        return False
    return _all(recorder, recorder.call(torch.eq, (left, right)))


def allclose(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `isclose` says of all elements."""
    _pair("torch.allclose", recorder, args)
    return _all(recorder, recorder.call(torch.isclose, args, kwargs))


def _pair(name: str, recorder: Recorder, args: tuple[Any, ...]) -> tuple[TracedTensor, TracedTensor]:
    """Both tensors, if the graph can compare them as they are."""
    if len(args) < 2 or recorder.follow() is None or any(type(arg) is not TracedTensor for arg in args[:2]):
        raise DataDependent(name, "", BRANCH)
    left, right = args[:2]
    if left._meta.dtype is not right._meta.dtype or left._meta.device != right._meta.device:
        raise DataDependent(name, "", BRANCH)
    return left, right


def _all(recorder: Recorder, same: TracedTensor) -> Any:
    return number_of(recorder, recorder.call(torch.all, (same,)), "bool")
