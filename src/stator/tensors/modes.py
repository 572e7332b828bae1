"""Torch's global state while capturing: changed for real inside a scope, brought into the graph when it matters.

Nothing intercepts the state changes themselves. Before an operation is recorded, the state it runs in is compared
with the state the graph is in at that point, and nodes that close the gap are recorded first. Contexts around nothing
leave no trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.amp import autocast_mode
from torch.autograd import grad_mode
from torch.utils import _device

from stator.tensors import settings
from stator.tensors.signals import UnsupportedState

if TYPE_CHECKING:
    from torch.fx import Node

_grad = torch.is_grad_enabled
_inference = torch.is_inference_mode_enabled
_default_dtype = torch.get_default_dtype
_any_autocast = torch._C._is_any_autocast_enabled
_settings = settings.watched


class Entered(threading.local):
    """Devices that the program being captured has entered as contexts; torch itself does not hear of them."""

    def __init__(self) -> None:
        self.devices: list[torch.device] = []
        self.around: list[torch.device] = []  # of contexts around the capture
        self.left = 0  # how many of those the program has left

    @property
    def top(self) -> torch.device | None:
        return self.devices[-1] if self.devices else None


_entered = Entered()


def enter_device(device: torch.device) -> None:
    _entered.devices.append(device)


def leave_device() -> None:
    if _entered.devices:
        _entered.devices.pop()
    elif _entered.around:
        _entered.around.pop()
        _entered.left += 1
    else:
        raise UnsupportedState("torch.device", "a context that nobody entered")


def devices_inside() -> tuple[list[torch.device], int]:
    """Devices that the program has entered as contexts, and how many around the capture it has left."""
    return _entered.devices, _entered.left


_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")

Autocast = tuple[tuple[str, bool, torch.dtype], ...]


class State(NamedTuple):
    """What the result of an operation depends on besides its arguments."""

    grad: bool
    inference: bool
    dtype: torch.dtype
    autocast: tuple[bool, Autocast] | None  # cache enabled and (device, enabled, dtype) rows; None: off everywhere
    settings: settings.Values | None = None  # None: as at the start
    device: torch.device | None = None  # that the program made the default one


def read_state() -> State:
    """The state operations run in now."""
    autocast = _read_autocast() if _any_autocast() else None
    return State(_grad(), _inference(), _default_dtype(), autocast, _settings.now, _entered.top)


def _read_autocast() -> tuple[bool, Autocast]:
    rows = tuple(
        (device, True, torch.get_autocast_dtype(device))
        for device in _AUTOCAST_DEVICES
        if torch.is_autocast_enabled(device)
    )
    return torch.is_autocast_cache_enabled(), rows


_FLAGS: tuple[Callable[[], Any], ...] = (
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch._C._get_flash_sdp_enabled,
    torch._C._get_mem_efficient_sdp_enabled,
    torch._C._get_math_sdp_enabled,
    torch._C._get_cudnn_sdp_enabled,
    torch._C._get_mkldnn_enabled,
    torch._C._get_cudnn_enabled,
)


_numbered: dict[tuple[Any, ...], int] = {}


def read_flags() -> int:
    """A number for the settings that choose between implementations, and so strides; fixed while capturing."""
    return _numbered.setdefault(tuple(flag() for flag in _FLAGS), len(_numbered))


def _by_device(rows: Autocast) -> dict[str, tuple[str, bool, torch.dtype]]:
    return {row[0]: row for row in rows}


def default_device() -> torch.device | None:
    """The device that factories use without being told, if one was set."""
    if _entered.top is None and _entered.around:
        return _entered.around[-1]
    found = _entered.top or _device.CURRENT_DEVICE
    return _TORCHS_OWN if found is None and _entered.left else found  # the graph still runs in the context


_TORCHS_OWN = torch.device("cpu")


def devices_around() -> list[torch.device]:
    """Devices of the contexts that are open, the innermost last."""
    modes = torch.overrides._get_current_function_mode_stack()
    return [mode.device for mode in modes if isinstance(mode, _device.DeviceContext)]


def check_surroundings() -> None:
    """Refuses to record below modes and transforms that would see or change the operations."""
    for mode in torch.overrides._get_current_function_mode_stack():
        if not isinstance(mode, _device.DeviceContext):
            raise UnsupportedState(type(mode).__qualname__)
    if torch._C._len_torch_dispatch_stack():
        raise UnsupportedState(type(torch._C._get_dispatch_stack_at(0)).__qualname__)
    if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python):
        raise UnsupportedState("torch._C._DisableTorchDispatch")  # fake tensors would reach kernels, which crash
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise UnsupportedState("torch.func transform")
    if torch.autograd.forward_ad._current_level >= 0:
        raise UnsupportedState("torch.autograd.forward_ad.dual_level")
    if torch._C._get_tracing_state() is not None:
        raise UnsupportedState("torch.jit.trace")


Rows = tuple[tuple[str, bool, torch.dtype], ...]
Before = tuple[bool, bool, Rows]  # grad mode, inference mode and autocast
NEVER: Before = (False, False, ())  # of a block that was not entered


def autocast_rows() -> Rows:
    """By device: whether autocast is on, and its type."""
    return tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _AUTOCAST_DEVICES)


class Left(NamedTuple):
    """What a program has made of torch's state when it ends or comes to a break."""

    state: State
    autocast: Rows
    cache: bool
    nesting: int
    devices: list[torch.device]  # entered
    devices_left: int  # of those around the capture
    guards: list[InferenceGuard]  # open


class Scope:
    """Restores the state of the moment it was opened; a `whole` one is that of a capture, others are inside of one."""

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole

    def __enter__(self) -> Scope:
        self.state = read_state()
        self.autocast = autocast_rows()
        self.cache = torch.is_autocast_cache_enabled()
        self.nesting = _nesting()
        self.guards: list[InferenceGuard] = []
        self.settings = _settings.start, _settings.now, _settings.late
        self.condition: Any = None  # on settings, known at the end
        self.devices = _entered.devices, _entered.around, _entered.left
        _entered.devices = [] if self.whole else list(_entered.devices)
        _entered.around = devices_around() if self.whole else list(_entered.around)
        _entered.left = 0
        _settings.start, _settings.now, _settings.late = None, None, False
        self.state = read_state()
        return self

    def go_to(self, state: State) -> None:
        """Brings torch into a state without inference mode."""
        torch._C._set_grad_enabled(state.grad)
        if torch.get_default_dtype() is not state.dtype:
            torch.set_default_dtype(state.dtype)
        cache, rows = state.autocast or (True, ())
        wanted = _by_device(rows)
        for device in _AUTOCAST_DEVICES:
            torch.set_autocast_enabled(device, device in wanted)
            if device in wanted:
                torch.set_autocast_dtype(device, wanted[device][2])
        torch.set_autocast_cache_enabled(cache)

    def calm(self, grad_mode: bool) -> None:
        """The state that backward runs in unless somebody sees to it: this grad mode, no autocast."""
        torch._C._set_grad_enabled(grad_mode)
        for device in _AUTOCAST_DEVICES:
            torch.set_autocast_enabled(device, False)
        _entered.devices, _entered.around = [], []

    def left(self) -> Left:
        """What the program inside has made of the state."""
        cache, nesting = torch.is_autocast_cache_enabled(), _nesting()
        devices, left = list(_entered.devices), _entered.left
        return Left(read_state(), autocast_rows(), cache, nesting, devices, left, list(self.guards))

    def __exit__(self, *exc: object) -> None:
        for guard in reversed(self.guards):
            guard.leave()
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cache)
        while _nesting() > self.nesting:
            torch.autocast_decrement_nesting()
        while _nesting() < self.nesting:
            torch.autocast_increment_nesting()
        torch._C._set_grad_enabled(self.state.grad)
        if torch.get_default_dtype() is not self.state.dtype:
            torch.set_default_dtype(self.state.dtype)
        self.condition = settings.condition()
        if _settings.start is not None:
            settings.apply(_settings.start)
        _settings.start, _settings.now, _settings.late = self.settings
        _entered.devices, _entered.around, _entered.left = self.devices


def _nesting() -> int:
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


class InferenceGuard:
    """Stands in for torch's `_InferenceMode`, so that an abandoned capture can still leave the mode.

    Behind a break it has no scope: it was entered at the end of one graph and is left by another, which also brings
    back the autocast of the moment it was entered.
    """

    def __init__(self, scope: Scope | None, enabled: bool, closes: Any = None, before: Before = NEVER) -> None:
        self.scope = scope
        self.enabled = enabled
        self.closes = closes  # the mode around the capture that it leaves
        self.before = before  # outside of it
        self.guard: Any = None

    def __enter__(self) -> None:
        self.before = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast_rows()
        self.enter()
        if self.scope is not None:
            self.scope.guards.append(self)

    def enter(self) -> None:
        self.guard = torch._C._InferenceMode(self.enabled)
        self.guard.__enter__()

    def __exit__(self, *exc: object) -> None:
        self.leave()
        if self.scope is not None and self in self.scope.guards:
            self.scope.guards.remove(self)

    def leave(self) -> None:
        if self.guard is not None:
            self.guard.__exit__(None, None, None)
            self.guard = None


class GraphState:
    """The state the graph is in after its last node, and the nodes that change it."""

    def __init__(
        self,
        record: Callable[[Any, tuple[Any, ...], str], Node],
        traces: bool = False,
        begun: Callable[[], bool] = lambda: True,
        may_ease: Callable[[], bool] = lambda: False,
    ) -> None:
        self.traces = traces
        self.may_ease = may_ease  # whether inference mode may become no_grad
        self.begun = begun  # whether the graph has operations already
        self.settings: settings.Values = ()  # at the start, once some have changed
        self.start = self.now = read_state()
        self._record = record
        self._entered: list[tuple[str, State, Node]] = []  # contexts open in the graph: kind, state before, handle

    def go_to(self, state: State) -> None:
        """Records what brings the graph into `state`."""
        if self.traces and state.inference and not self.start.inference:
            state = state._replace(grad=False)  # which is all that may be left of the mode
        if state.settings != self.now.settings:
            self._set(state.settings)
        if state.dtype is not self.now.dtype:
            if self.traces:  # AOTAutograd leaves it to the running graph to look at the default
                raise UnsupportedState("torch.set_default_dtype", "the default dtype changes")
            self._record(torch.set_default_dtype, (state.dtype,), "set_default_dtype")
        if self.traces and self.now.inference != state.inference and self.begun():
            self._ease(state)
        if (self.now.inference, self.now.autocast) != (state.inference, state.autocast):
            self._nest(state)
            self._contexts(state)
        if self.now.grad != state.grad:
            self._record(torch._C._set_grad_enabled, (state.grad,), "set_grad_enabled")
        self.now = state

    def _ease(self, state: State) -> None:
        """A graph that a backend traces is in inference mode or not: a block of a part of it becomes one of no_grad."""
        if self.start.inference or not self.may_ease():
            raise UnsupportedState("torch.inference_mode", "a graph that a backend traces is in it or not")
        for kind, _, node in self._entered:
            if kind == "inference":
                node.target, node.args = torch._C._set_grad_enabled, (not node.args[0],)
        self._entered = [entered for entered in self._entered if entered[0] != "inference"]
        self.now = self.now._replace(inference=state.inference)

    def _set(self, wanted: settings.Values | None) -> None:
        self.settings = self.settings or _settings.start or ()
        before, after = self.now.settings or self.settings, wanted or self.settings
        if self.traces and not settings.only_early(before, after):
            raise UnsupportedState("torch.backends", "settings that the backend would not see")
        self._record(settings.apply, (after,), "settings")

    def _nest(self, state: State) -> None:
        """Blocks of autocast hold blocks of another grad mode whole: what splits a graph by them wants that."""
        inside = any(kind == "inference" for kind, _, _ in self._entered)
        plain = self.now.inference == state.inference and not inside
        if plain and self.now.grad != self.start.grad:
            self._record(torch._C._set_grad_enabled, (self.start.grad,), "set_grad_enabled")
            self.now = self.now._replace(grad=self.start.grad)

    def finish(self, pausing: bool = False) -> None:
        """Leaves the graph in the state it started in; `pausing`: blocks that are open go on behind it."""
        self._leave(0, PAUSE if pausing else LEAVE)
        self.go_to(self.start)

    def forget_casts(self) -> None:
        """The last block of autocast has ended; another one may go on where it is open in the graph."""
        if self.now.autocast is not None and not self.traces:
            self._record(torch.clear_autocast_cache, (), "clear_autocast_cache")

    def _contexts(self, state: State) -> None:
        """Leaves contexts whose end brings what is wanted, and enters new ones for the rest."""
        while self._entered:
            kind, before, _ = self._entered[-1]
            wanted = getattr(state, kind)
            if getattr(self.now, kind) == wanted or getattr(before, kind) != wanted:
                break
            self._leave(len(self._entered) - 1)
        if self.now.autocast != state.autocast:
            self._enter_autocast(state)
        if self.now.inference != state.inference:
            node = self._record(grad_mode._enter_inference_mode, (state.inference,), "inference_mode")
            self._entered.append(("inference", self.now, node))
            self.now = self.now._replace(inference=state.inference, grad=not state.inference)

    def _enter_autocast(self, state: State) -> None:
        """One context per device whose row changes; each knows the rows there were before it."""
        cache, rows = state.autocast or (True, ())
        wanted, present = _by_device(rows), _by_device((self.now.autocast or (True, ()))[1])
        changed = [d for d in {**present, **wanted} if present.get(d) != wanted.get(d)] or list(wanted)[:1]
        for device in changed:
            _, enabled, dtype = wanted.get(device, (device, False, torch.get_autocast_dtype(device)))
            node = self._record(autocast_mode._enter_autocast, (device, dtype, enabled, cache), "enter_autocast")
            self._entered.append(("autocast", self.now, node))
            present.pop(device, None)
            if device in wanted:
                present[device] = wanted[device]
            rows = tuple(present[d] for d in _AUTOCAST_DEVICES if d in present)
            self.now = self.now._replace(autocast=(cache, rows) if rows else None)

    def _leave(self, depth: int, functions: dict[str, Any] | None = None) -> None:
        while len(self._entered) > depth:
            kind, before, node = self._entered.pop()
            self._record((functions or LEAVE)[kind], (node,), f"exit_{kind}")
            if kind == "inference":
                self.now = self.now._replace(inference=before.inference, grad=before.grad)
            else:
                self.now = self.now._replace(autocast=before.autocast)


# Node targets that change state: contexts by kind, and plain settings.
ENTER: dict[Any, str] = {
    autocast_mode._enter_autocast: "autocast",
    grad_mode._enter_inference_mode: "inference",
}
LEAVE: dict[str, Any] = {
    "autocast": autocast_mode._exit_autocast,
    "inference": grad_mode._exit_inference_mode,
}


def pause_autocast(block: Any) -> None:
    """Leaves a block of autocast that goes on later: what was cast inside of it is not forgotten."""
    torch.autocast_increment_nesting()
    autocast_mode._exit_autocast(block)
    torch.autocast_decrement_nesting()


PAUSE: dict[str, Any] = {**LEAVE, "autocast": pause_autocast}
SETTERS: frozenset[Any] = frozenset({torch._C._set_grad_enabled, torch.set_default_dtype, settings.apply})
QUIET: frozenset[Any] = frozenset({*SETTERS, *ENTER, *LEAVE.values(), *PAUSE.values(), torch.clear_autocast_cache})

# Functions that read or change nothing but this state: they run for real while capturing.
STATE_FUNCTIONS: frozenset[Any] = frozenset(
    {
        torch._C._set_grad_enabled,
        torch._C._is_any_autocast_enabled,
        torch.is_grad_enabled,
        torch.is_inference_mode_enabled,
        torch.get_default_dtype,
        torch.is_autocast_enabled,
        torch.is_autocast_cpu_enabled,
        torch.is_autocast_cache_enabled,
        torch.get_autocast_dtype,
        torch.get_autocast_gpu_dtype,
        torch.get_autocast_cpu_dtype,
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.autocast_increment_nesting,
        torch.autocast_decrement_nesting,
    }
)
