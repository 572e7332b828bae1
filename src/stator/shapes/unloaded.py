"""Torch's ShapeEnv loads Dynamo, which takes seconds, for things that nobody asked for: stator's does without."""

from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

VALIDATOR = "torch.fx.experimental.validator"
UNWANTED: Any = SimpleNamespace(translation_validation_enabled=lambda: False)


def load(name: str, *rest: Any) -> Any:
    """`__import__`, but for the validator of translations: a setting tells whether anybody wants it."""
    if name == VALIDATOR and name not in sys.modules:
        from torch.fx.experimental import _config

        if not _config.translation_validation:
            return UNWANTED
    return builtins.__import__(name, *rest)


def unvalidated(cls: type) -> dict[str, Callable[..., Any]]:
    """The methods of torch's ShapeEnv that make one, with such imports."""
    found: dict[str, Callable[..., Any]] = {}
    for name in ("__init__", "_init"):
        method = vars(cls).get(name)
        if type(method) is FunctionType:
            namespace = {**method.__globals__, "__builtins__": {**vars(builtins), "__import__": load}}
            made = FunctionType(method.__code__, namespace, name, method.__defaults__, method.__closure__)
            made.__kwdefaults__ = method.__kwdefaults__
            found[name] = made
    return found


def drop_idle_trace() -> None:
    """Where no structured trace is written, torch drops its handler at the first record, which must not be one with a
    stack: to write that down Dynamo is loaded."""
    handlers = logging.getLogger("torch.__trace").handlers
    if any(getattr(handler, "root_dir", "") is None for handler in handlers):
        from torch._logging import trace_structured

        trace_structured("artifact", lambda: {"name": "stator", "encoding": "string"}, expect_trace_id=False)
