"""The state of torch that a program leaves changed, mostly at a break: blocks that are open go on behind it."""

from __future__ import annotations

from typing import Any

import torch

from stator.tensors import settings
from stator.tensors.modes import InferenceGuard, Left, Rows, Scope
from stator.tensors.signals import UnsupportedState

Calls = list[tuple[Any, tuple[Any, ...]]]


def enter_inference(mode: InferenceGuard) -> None:
    """A block of inference mode goes on behind the graph."""
    grad, _, autocast = mode.before
    set_autocast(autocast)
    torch._C._set_grad_enabled(grad)
    mode.enter()


def set_autocast(rows: Rows) -> None:
    for device, enabled, dtype in rows:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def leave_inference(scope: Scope, mode: Any, grad: bool, inference: bool, autocast: Rows) -> None:
    """The program leaves a mode around the capture: another one inside of it brings back what was outside."""
    if any(guard.closes is None for guard in scope.guards):
        raise UnsupportedState("torch.inference_mode", "blocks that do not end in order")
    InferenceGuard(scope, inference, mode).__enter__()
    set_autocast(autocast)
    torch._C._set_grad_enabled(grad)


def state_effects(scope: Scope, left: Left) -> Calls:
    """Calls that bring torch from the state before a program into that which it leaves."""
    calls: Calls = [*_devices(left), *_inference(left), *_autocast(scope, left)]
    start, end = scope.state, left.state
    if end.inference != start.inference and not left.guards:
        raise UnsupportedState("torch", "a context of torch is still open at the end")
    if end.grad != start.grad or left.guards:
        calls.append((torch._C._set_grad_enabled, (end.grad,)))
    if end.dtype != start.dtype:
        calls.append((torch.set_default_dtype, (end.dtype,)))
    if end.settings is not None:
        calls.append((settings.apply, (end.settings,)))
    return calls


def _devices(left: Left) -> Calls:
    leaving: Calls = [(leave_device, ())] * left.devices_left
    return leaving + [(enter_device, (device,)) for device in left.devices]


def enter_device(device: torch.device) -> None:
    device.__enter__()


def leave_device() -> None:
    torch.device("cpu").__exit__(None, None, None)  # whichever it is: they are one stack


def _autocast(scope: Scope, left: Left) -> Calls:
    calls: Calls = []
    if left.autocast != scope.autocast or left.guards:
        calls.append((set_autocast, (left.autocast,)))
    if left.cache != scope.cache:
        calls.append((torch.set_autocast_cache_enabled, (left.cache,)))
    if left.nesting != scope.nesting:
        calls.append((nest_autocast, (left.nesting - scope.nesting,)))
    return calls


def nest_autocast(change: int) -> None:
    """Blocks of autocast opened, or ended: with the last one goes what they have cast."""
    for _ in range(change):
        torch.autocast_increment_nesting()
    for _ in range(-change):
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


def _inference(left: Left) -> Calls:
    closed: Calls = [(InferenceGuard.__exit__, (one.closes,)) for one in left.guards if one.closes is not None]
    return closed + [(enter_inference, (one,)) for one in left.guards if one.closes is None]
