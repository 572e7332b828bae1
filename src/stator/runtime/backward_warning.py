"""torch warns of `backward(create_graph=True)`: the entry function has it do so, in torch's own line."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import graph

from stator.frame import Frame
from stator.native.warn import action_for, is_inside

TEXT = "Using backward() with create_graph=True will create a reference cycle"
given: list[bool] = []  # torch gives it once in a process: by then there is nothing to do


def note(host: Any, f: Frame) -> None:
    """Once in a capture is enough."""
    if is_over() or any(function is give for function, *_ in host.effects):
        return
    if is_inside(host) or action_for(host, f, TEXT, UserWarning, graph.__name__, 0) == "error":
        raise host.refuse("autograd", "backward(create_graph=True), which warns", function="Tensor.backward")
    host.defer(give, [], None)


def is_over() -> bool:
    return bool(given) and not torch.is_warn_always_enabled()


def give() -> None:
    """Run time: the smallest call that torch warns of."""
    if is_over():
        return
    with torch._C.DisableTorchFunction(), torch.enable_grad():
        leaf = torch.ones((), requires_grad=True)
        leaf.clone().backward(create_graph=True)
        leaf.grad = None
    given.append(True)
