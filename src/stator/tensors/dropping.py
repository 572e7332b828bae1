"""Dropout that drops nothing is its input, which FakeTensor does not know of symbolic sizes: it makes a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from stator.tensors.traced import TracedTensor


def untouched(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedTensor | None:
    """The input of a call that gives it back; None: of another call, or of one that torch refuses."""
    try:
        input, p, training = CALLS[func](*args, **kwargs)
    except TypeError:  # no such arguments
        return None
    plain = type(input) is TracedTensor and type(p) in (int, float) and type(training) is bool and 0 <= p <= 1
    return input if plain and (p == 0 or not training) else None


def _layer(input: Any, p: Any = 0.5, training: Any = True, inplace: Any = False) -> tuple[Any, Any, Any]:
    return input, p, training


def _operation(input: Any, p: Any, train: Any) -> tuple[Any, Any, Any]:
    return input, p, train


CALLS: dict[Any, Callable[..., tuple[Any, Any, Any]]] = {
    F.dropout: _layer,
    torch.dropout: _operation,
    torch.dropout_: _operation,
}
