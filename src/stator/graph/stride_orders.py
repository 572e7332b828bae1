"""In which order strides are is no matter of a size being one: Inductor only prefers a layout by it, any does."""

from __future__ import annotations

from functools import cache
from typing import Any

from stator.shapes.env import env_class


@cache
def install() -> None:
    """Takes the guards out of Inductor's sorting of strides, once."""
    from torch._inductor import ir  # heavy

    sort = ir.argsort_sym

    def argsort_sym(env: Any, strides: Any, **options: Any) -> Any:
        if not isinstance(env, env_class()):
            return sort(env, strides, **options)
        with env.sorting():
            return sort(env, strides, **options)

    ir.argsort_sym = argsort_sym


__all__ = ["install"]
