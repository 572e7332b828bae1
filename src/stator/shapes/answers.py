"""Methods that remember their answers, for each environment apart.

Torch keeps the answers of all environments in one table for each method, some of them for good: every environment that
ever asked would stay, and with it what is known of a capture.
"""

from __future__ import annotations

import functools
import types
from typing import Any

VERSIONED = types.FunctionType  # a method around a table that is emptied when something new is known


class Remembering:
    """In place of a method of torch's that remembers its answers; `plain`: what gives them."""

    def __init__(self, method: Any, plain: Any = None) -> None:
        self.plain = plain or method.__wrapped__
        self.versioned = type(method) is VERSIONED
        self.name = method.__wrapped__.__name__

    def __get__(self, env: Any, cls: Any = None) -> Any:
        if env is None:
            return self
        answers = env.__dict__.setdefault("answers", {})
        version = env._version_counter if self.versioned else 0
        known = answers.get(self.name)
        if known is None or known[0] != version:
            known = answers[self.name] = version, functools.cache(types.MethodType(self.plain, env))
        return known[1]


def remembering(cls: type) -> dict[str, Remembering]:
    """The methods of a class that remember, by name."""
    return {name: Remembering(method) for name, method in vars(cls).items() if hasattr(method, "cache_clear")}
