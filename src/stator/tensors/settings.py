"""Settings of torch that choose how operations run: kernels, precision, determinism, autograd's helpers.

As grad mode and autocast, they are changed for real while capturing, and put back at the end. From the moment a program
reads or changes one, all of them are part of the state that operations run in, and are guarded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.backends import opt_einsum

C: Any = torch._C


class Setting(NamedTuple):
    """One setting; `early` ones decide while a graph is traced, so that a trace need not set them."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]
    early: bool = False


def _by_name(getter: str, setter: str, early: bool = False) -> Setting:
    return Setting(getattr(C, getter), getattr(C, setter), early)


def _precision(backend: str) -> Setting:
    return Setting(
        lambda: C._get_fp32_precision_getter(backend, "all"),
        lambda value: C._set_fp32_precision_setter(backend, "all", value),
    )


def _write_order(value: Any) -> None:
    opt_einsum.enabled, opt_einsum.strategy = value


SETTINGS: dict[str, Setting] = {
    "flash attention": _by_name("_get_flash_sdp_enabled", "_set_sdp_use_flash", True),
    "memory efficient attention": _by_name("_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient", True),
    "math attention": _by_name("_get_math_sdp_enabled", "_set_sdp_use_math", True),
    "cudnn attention": _by_name("_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn", True),
    "overrideable attention": _by_name("_get_overrideable_sdp_enabled", "_set_sdp_use_overrideable", True),
    "order of attention": Setting(
        lambda: tuple(map(int, C._get_sdp_priority_order())), lambda value: C._set_sdp_priority_order(list(value)), True
    ),
    "mkldnn": _by_name("_get_mkldnn_enabled", "_set_mkldnn_enabled"),
    "mkldnn deterministic": _by_name("_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
    "cudnn": _by_name("_get_cudnn_enabled", "_set_cudnn_enabled"),
    "cudnn benchmark": _by_name("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    "cudnn deterministic": _by_name("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    "cudnn depthwise": _by_name("_get_cudnn_depthwise_kernel", "_set_cudnn_depthwise_kernel"),
    "nnpack": _by_name("_get_nnpack_enabled", "_set_nnpack_enabled"),
    "precision of cuda": _precision("cuda"),
    "precision of mkldnn": _precision("mkldnn"),
    "tf32 of cudnn": _by_name("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32"),
    "tf32 of mkldnn": _by_name("_get_onednn_allow_tf32", "_set_onednn_allow_tf32"),
    "tf32 of cublas": _by_name("_get_cublas_allow_tf32", "_set_cublas_allow_tf32"),
    "precision of products": _by_name("_get_float32_matmul_precision", "_set_float32_matmul_precision"),
    "deterministic algorithms": Setting(
        lambda: (C._get_deterministic_algorithms(), C._get_deterministic_algorithms_warn_only()),
        lambda value: C._set_deterministic_algorithms(value[0], warn_only=value[1]),
    ),
    "threads of backward": _by_name("_is_multithreading_enabled", "_set_multithreading_enabled"),
    "anomaly detection": Setting(
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda value: torch.set_anomaly_enabled(*value),
    ),
    "order of einsum": Setting(lambda: (opt_einsum.enabled, opt_einsum.strategy), _write_order, True),
}
ROWS = tuple(SETTINGS.values())
Values = tuple[Any, ...]


def _read_one(setting: Setting) -> Any:
    try:
        return setting.read()
    except RuntimeError:  # settings of two generations contradict each other
        return None


def read_all(_: Any = None) -> Values:
    """All settings now."""
    return tuple(map(_read_one, ROWS))


def apply(values: Values) -> None:
    """Brings the settings to these values; some move others, so that it may take a second look."""
    for _ in range(3):
        now = read_all()
        if now == values:
            return
        for setting, before, after in zip(ROWS, now, values, strict=True):
            if before != after and after is not None:
                setting.write(after)


def read_early(_: Any = None) -> Values:
    """Those that choose between implementations of attention, or the order of products."""
    return tuple(row.read() for row in ROWS if row.early)


EARLY = ("sdp", "einsum")  # in the names of functions that look at such settings alone


class Watched(threading.local):
    """The settings during the capture of this thread, once the program looked at some."""

    start: Values | None = None
    now: Values | None = None  # if they are other ones
    late: bool = False  # it looked at others than those

    def watch(self, function: Any) -> None:
        """The program reads or changes a setting."""
        if self.start is None:
            self.start = read_all()
        self.late = self.late or not any(part in function.__name__ for part in EARLY)

    def changed(self) -> None:
        now = read_all()
        self.now = None if now == self.start else now


watched = Watched()


def condition() -> tuple[Callable[[Any], Values], Values] | None:
    """What the entry has to guard: a reader, and what it read at the start."""
    start = watched.start
    if start is None:
        return None
    early = tuple(value for value, row in zip(start, ROWS, strict=True) if row.early)
    return (read_all, start) if watched.late else (read_early, early)


def only_early(before: Values, after: Values) -> bool:
    """Whether nothing differs but what a trace decides by itself."""
    return all(row.early or old == new for row, old, new in zip(ROWS, before, after, strict=True))


def _functions() -> list[Any]:
    """The functions that a program reads and changes settings with."""
    names = [name for name in dir(C) if name.startswith(("_get_", "_set_", "_is_"))]
    parts = (
        "sdp", "mkldnn", "cudnn", "nnpack", "onednn", "fp32_precision", "tf32", "float32_matmul", "_multithreading",
        "deterministic_algorithms",
    )  # fmt: skip
    odd = ("available", "built", "reserve", "fp16", "xnnpack", "fa3")
    found = [getattr(C, name) for name in names if any(p in name for p in parts) and not any(p in name for p in odd)]
    anomaly = [torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled, torch.set_anomaly_enabled]
    return [*found, *anomaly, torch.are_deterministic_algorithms_enabled]


FUNCTIONS = _functions()
WRITING = frozenset(f for f in FUNCTIONS if f.__name__.startswith(("_set_", "set_")))
