"""What autograd thinks of writes to a tensor from outside that has a history."""

from __future__ import annotations

from typing import Any

import torch

from stator.guards.check import EQ, TYPE_IS


def guard_view(host: Any, record: Any) -> None:
    """Whether it is a view, of what operation and of what: autograd refuses to write to some."""
    path, tensor = record.path, record.obj
    with host.recorder.paused():
        is_view = tensor._is_view()
        host.guards.add(path.part("_is_view()", torch.Tensor._is_view), EQ, is_view, None)
        if is_view:
            host.guards.add(path.get("grad_fn"), TYPE_IS, type(tensor.grad_fn), None)
            host.guards.add(path.get("_base").get("is_leaf"), EQ, tensor._base.is_leaf, None)
