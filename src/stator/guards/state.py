"""torch's global and thread state, as far as it decides what a captured graph means."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils._device import DeviceContext

from stator import _entry


class StateSnapshot(NamedTuple):
    """The state at one moment; `words` is the same in the form that C compares."""

    grad: bool
    inference: bool
    default_dtype: torch.dtype
    default_device: torch.device | None
    deterministic: bool
    deterministic_warn_only: bool
    autocast_cache: bool
    autocast_cpu: tuple[bool, torch.dtype]
    autocast_cuda: tuple[bool, torch.dtype]
    function_enabled: tuple[bool, bool]
    function_modes: tuple[type, ...]
    dispatch_modes: tuple[type, ...]
    dispatch_include: int
    dispatch_exclude: int
    functorch_depth: int
    words: bytes | None


_LABELS = {
    "grad": "grad mode",
    "inference": "inference mode",
    "default_dtype": "default dtype",
    "default_device": "default device",
    "deterministic": "deterministic algorithms",
    "deterministic_warn_only": "deterministic algorithms' warn-only flag",
    "autocast_cache": "autocast cache",
    "autocast_cpu": "autocast on cpu",
    "autocast_cuda": "autocast on cuda",
    "function_enabled": "__torch_function__ for (subclasses, modes)",
    "function_modes": "stack of torch function modes",
    "dispatch_modes": "stack of torch dispatch modes",
    "dispatch_include": "included dispatch keys",
    "dispatch_exclude": "excluded dispatch keys",
    "functorch_depth": "depth of functorch transforms",
}


def _function_modes() -> list[Any]:
    return [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]


def _default_device(modes: list[Any]) -> torch.device | None:
    """The default device is the one of a function mode; None stands for torch's own default."""
    return next((mode.device for mode in reversed(modes) if type(mode) is DeviceContext), None)


def _dispatch_modes() -> tuple[type, ...]:
    return tuple(type(torch._C._get_dispatch_stack_at(i)) for i in range(torch._C._len_torch_dispatch_stack()))


def _functorch_depth() -> int:
    level = torch._C._functorch.maybe_current_level()
    return 0 if level is None else level


def _autocast(device: str) -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)


def snapshot() -> StateSnapshot:
    """The state of this thread now, read through torch's Python functions."""
    modes = _function_modes()
    deterministic = torch.are_deterministic_algorithms_enabled()
    return StateSnapshot(
        grad=torch.is_grad_enabled(),
        inference=torch.is_inference_mode_enabled(),
        default_dtype=torch.get_default_dtype(),
        default_device=_default_device(modes),
        deterministic=deterministic,
        deterministic_warn_only=deterministic and torch.is_deterministic_algorithms_warn_only_enabled(),
        autocast_cache=torch.is_autocast_cache_enabled(),
        autocast_cpu=_autocast("cpu"),
        autocast_cuda=_autocast("cuda"),
        function_enabled=(torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled()),
        function_modes=tuple(type(mode) for mode in modes),
        dispatch_modes=_dispatch_modes(),
        dispatch_include=torch._C._dispatch_tls_local_include_set().raw_repr(),
        dispatch_exclude=torch._C._dispatch_tls_local_exclude_set().raw_repr(),
        functorch_depth=_functorch_depth(),
        words=_entry.state_words(),
    )


def differences(old: StateSnapshot, new: StateSnapshot) -> list[str]:
    """What changed, as 'grad mode was True, is now False'."""
    return [
        f"{label} was {_show(getattr(old, name))}, is now {_show(getattr(new, name))}"
        for name, label in _LABELS.items()
        if getattr(old, name) != getattr(new, name)
    ]


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_show(part) for part in value) + ")"
    return value.__qualname__ if isinstance(value, type) else str(value)


def holds(old: StateSnapshot) -> bool:
    """The Python twin of the STATE check."""
    return old[:-1] == snapshot()[:-1]


_entry.set_state_twin(holds)
