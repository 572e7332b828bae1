"""Lists of plain numbers of varying length as tensors: made when a call comes in, and graph inputs like others."""

from __future__ import annotations

import functools
from typing import Any

import torch

from stator import _entry
from stator.eval.settling import NAMED, SERVED
from stator.frame import Frame
from stator.guards.check import EQ
from stator.runtime.numpy_numbers import NumpyNumber, np
from stator.runtime.unrolling import has_varied
from stator.tensors.traced import TracedTensor
from stator.world.hollow import DECLINED, Hollow
from stator.world.hollow_sequences import BOOLS, HollowList


@functools.cache
def maker(dtype: torch.dtype) -> Any:
    """What makes a tensor of a list of plain numbers, whatever the defaults are; None of any other list."""
    return _entry.plain_fold(functools.partial(torch.tensor, dtype=dtype, device="cpu"))


def tensor_of(hollow: Hollow, dtype: torch.dtype | None, index: bool = False) -> Any:
    """A tensor of all numbers of a list whose length varies, or of bools: another one each time."""
    world: Any = hollow.world
    if not isinstance(hollow, HollowList) or hollow.popped or hollow.added:
        return DECLINED
    kind, varies = _entry.plain_kind(hollow.obj), has_varied(world, hollow.inner)
    if not kind or not (varies or kind == BOOLS):
        return DECLINED
    try:
        with world.recorder.paused():
            plain = torch.tensor(hollow.obj, dtype=dtype)
            make = maker(plain.dtype)
            real = make(hollow.obj)
    except Exception:  # a number that does not fit
        return DECLINED
    if plain.device.type != "cpu":
        return DECLINED
    number = world.tensor_lists[hollow.path] = world.tensor_lists.get(hollow.path, 0) + 1
    path = hollow.path.part(f"tensor {number}", make)
    if varies:
        world.varying.lessons.add((path, "size", 0))
    if dtype is None or index:  # other numbers would make a tensor of another type, or no index
        hollow.guard(EQ, kind, hollow.path.part("kind", _entry.plain_kind))
    return world.enter(real, path)


def serve_tensor(f: Frame, hollow: Hollow, args: list[Any], dtype: Any = None) -> Any:
    return tensor_of(hollow, dtype) if len(args) == 1 and (dtype is None or type(dtype) is torch.dtype) else DECLINED


def places(container: Any, hollow: Hollow) -> Any:
    """What a list of ints, or an int of numpy, stands for as the index of a tensor: a tensor of ints, or an int."""
    if type(container) is not TracedTensor:
        return DECLINED
    if isinstance(hollow, NumpyNumber):
        return hollow.number() if issubclass(type(hollow.obj), np.integer) else DECLINED
    if type(hollow.obj) is not list or not all(type(number) is int for number in hollow.obj):
        return DECLINED
    return tensor_of(hollow, torch.int64, index=True)


SERVED[id(torch.tensor)] = serve_tensor
NAMED[id(torch.tensor)] = ("dtype",)
