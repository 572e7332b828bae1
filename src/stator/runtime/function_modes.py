"""The stack of torch-function modes as the program sees it: without the one that records."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._device import DeviceContext

from stator.frame import Frame
from stator.guards import path as paths
from stator.native.rows import standin
from stator.tensors.modes import devices_inside

read_at = torch._C._get_function_stack_at


def around(host: Any) -> int:
    """How many modes of those around the capture are still there; the classes of all are guarded."""
    return int(host.recorder.depth) - devices_inside()[1]


def length(host: Any) -> int:
    return around(host) + len(devices_inside()[0]) + len(host.modes)


@standin(torch._C._len_torch_function_stack)
def stand_length(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> int:
    return length(host)


@standin(torch._C._is_torch_function_mode_enabled)
def stand_enabled(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    return length(host) > 0 and not host.without_modes


@standin(read_at)
def stand_mode(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """One mode: from outside by its place, or the one that a device has as a context."""
    (place,) = args
    outside = around(host)
    if type(place) is not int or not 0 <= place < length(host):
        raise host.refuse("tensor-mode", "a place beyond the stack of modes", type="torch function mode")
    if place < outside:
        return host.enter(read_at(place), paths.const(place).part("the torch-function mode in place", read_at))
    inside = [*devices_inside()[0], *host.modes][place - outside]
    return DeviceContext(inside) if type(inside) is torch.device else inside
