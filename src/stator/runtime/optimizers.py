"""torch.optim in captured code: a step does what it does in CPython."""

from __future__ import annotations

from typing import Any

import torch

from stator.frame import Frame
from stator.guards import path as paths
from stator.native.rows import passes_on, standin

HOME = "torch.optim."

# Blocks that the profiler may show look once for a module: now, or guards of the first step would see that change.
getattr(torch.autograd.profiler, "_maybe_cupti_monitor", lambda: None)()


def is_of_optimizer(f: Frame) -> bool:
    """Whether a frame is of torch's optimizers."""
    home = f.globals.get("__name__")
    return type(home) is str and home.startswith(HOME)


PLAINLY = paths.const("a program that fails if it is told that it is being compiled")


def is_compiling_in(f: Frame) -> bool:
    """What a frame is told of being compiled.

    Optimizers ask in order to keep numbers in tensors, which changes their results, and to leave out checks of devices
    when they are capturable, which a graph may be anywhere. Modules with hooks ask in order to leave out hooks that run
    even if forward raises. Encoders ask in order not to look at the mask, which gives other results where it is set:
    they are told only where a full graph is wanted, which would not exist otherwise.
    """
    if f.code is CALL or (f.code is ENCODER and not f.world.patient) or PLAINLY in f.world.whole_paths:
        return False
    return not is_of_optimizer(f) or f.code.co_name in TOLD or bool(local(f, "capturable"))


CALL = torch.nn.Module._call_impl.__code__
ENCODER = torch.nn.TransformerEncoder.forward.__code__
TOLD = frozenset({"_accelerator_graph_capture_health_check"})  # about streams of devices


def local(f: Frame, name: str) -> Any:
    names = f.code.co_varnames
    return f.locals[names.index(name)] if name in names else None


@passes_on
@standin(torch.optim.Optimizer.zero_grad)
def stand_zero_grad(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """torch excludes it from its own compiler; it only sets attributes."""
    return host.call(f, function.__wrapped__, args, kwargs)
