"""Tensors at the door: graph inputs, guarded by their metadata."""

from __future__ import annotations

from typing import Any

import torch

from stator.guards.check import TENSOR
from stator.guards.path import Path
from stator.guards.tensor_spec import TensorSpec
from stator.runtime.number_host import NumberHost, name_of
from stator.tensors.inputs import check_input
from stator.tensors.signals import UnsupportedTensor
from stator.tensors.subclasses import PLAIN
from stator.world.door import add_family
from stator.world.world import World


def enter_tensor(world: World, tensor: torch.Tensor, path: Path) -> Any:
    """A tensor from outside: a graph input, guarded by its metadata."""
    assert isinstance(world, NumberHost)
    with world.recorder.paused():
        try:
            check_input(tensor)
        except UnsupportedTensor as error:
            raise world.located(error) from None
        spec = TensorSpec.of(tensor)
        wanted = world.policy.dims(path, tensor)
        free = world.policy.strides(path, tensor) if spec.plain else frozenset()
        sizes, strides = (tuple(tensor.shape), tensor.stride()) if (wanted or free) and spec.plain else ((), ())
    dims = None
    if sizes:
        policy = world.policy
        earlier = policy.earlier(path, wanted, sizes)
        dims = world.symbolic().tensor(path, sizes, strides, wanted, free, policy.twins(path), earlier)
        spec = spec.with_dims(*(tuple(number if type(number) is int else None for number in part) for part in dims))
    if type(tensor) not in PLAIN:
        world.type_info(type(tensor))
    traced = world.recorder.input(tensor, name_of(path), dims)
    world.guards.add(path, TENSOR, spec, world.policy.told(path) or world.origin())
    world.register(tensor, path, traced)
    return traced


add_family(torch.Tensor, enter_tensor)
