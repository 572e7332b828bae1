"""Running a captured graph while torch traces it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.amp import autocast_mode
from torch.autograd import grad_mode
from torch.fx.traceback import preserve_node_meta

from stator.shapes.env import Place


def run(graph: fx.GraphModule, *inputs: Any) -> Any:
    """The outputs; torch copies the user's lines and modules from each operation to what it makes of it."""
    with preserve_node_meta():
        return Run(graph).run(*inputs)


class Run(fx.Interpreter):
    """Changes of torch's state go through torch's own contexts: only these both change it and are noticed.

    What torch finds out about sizes carries the user's line that it asks for.
    """

    def run_node(self, n: fx.Node) -> Any:
        env = getattr(detect_fake_mode(), "shape_env", None)
        if env is None:
            return super().run_node(n)
        known = len(env.guards)
        result = super().run_node(n)
        place = Place(getattr(n.meta, "location", None))
        env.guards[known:] = [guard._replace(sloc=place) for guard in env.guards[known:]]
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        change = CHANGES.get(target)
        return super().call_function(target, args, kwargs) if change is None else change(*args)


def enter_autocast(device: str, dtype: torch.dtype, enabled: bool, cache: bool) -> Any:
    mode = torch.autocast(device, dtype, enabled)  # its cache is off while torch traces
    mode.__enter__()
    return mode


def enter_inference(enabled: bool) -> Any:
    """Tensors of an exported program are never those of inference mode: what is left of it is that there is no grad."""
    mode = torch.no_grad() if enabled else torch.enable_grad()
    mode.__enter__()
    return mode


def leave(mode: Any) -> None:
    mode.__exit__(None, None, None)


CHANGES: dict[Any, Callable[..., Any]] = {
    autocast_mode._enter_autocast: enter_autocast,
    autocast_mode._exit_autocast: leave,
    grad_mode._enter_inference_mode: enter_inference,
    grad_mode._exit_inference_mode: leave,
}
