"""Assertions of a graph: what was assumed about numbers that only data tells."""

from __future__ import annotations

from typing import Any

import torch


def assert_holds(condition: Any, message: str) -> None:
    """Fails where an assumption of the graph does not hold; under a tracer it is torch's own assertion."""
    if condition is True:
        return
    if condition is False:
        raise RuntimeError(message)
    torch.ops.aten._assert_scalar.default(condition, message)
