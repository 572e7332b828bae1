"""Where a graph runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from stator.tensors.nodes import NodeMeta
from stator.tensors.plan import Group, New


def is_on_cpu(module: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether all tensors are on the CPU: those that go in, and those that the operations make."""
    if any(value.device.type != "cpu" for value in inputs if isinstance(value, torch.Tensor)):
        return False
    metas = (node.meta for node in module.graph.nodes if type(node.meta) is NodeMeta)
    return all(new.meta.device.type == "cpu" for meta in metas for new in _made(meta.value))


def _made(value: Any) -> Iterator[New]:
    if type(value) is New:
        yield value
    elif type(value) is Group:
        for item in value.items:
            yield from _made(item)
