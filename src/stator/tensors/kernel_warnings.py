"""Warnings that only kernels give, so that fake tensors do not hear them: what is known of the sizes tells."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from stator.tensors.plan import Group, Plan
from stator.tensors.traced import TracedTensor

NAMES = ("std", "var", "std_mean", "var_mean")
FREEDOM = {getattr(owner, name) for owner in (torch, torch.Tensor) for name in NAMES if hasattr(owner, name)}


def with_warnings(plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    """The plan, that of a call which warns if its kernel does."""
    if plan.warns:
        return replace(plan, in_kernel=True) if "out" in kwargs else plan  # resized: kernels have words of their own
    if func not in FREEDOM or type(args[0] if args else kwargs.get("input")) is not TracedTensor:
        return plan
    return replace(plan, warns=True, in_kernel=True) if is_unfree(plan, args, kwargs) else plan


def is_unfree(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether no more numbers are reduced to one than the correction takes away."""
    taken: Any = args[0] if args else kwargs["input"]
    given = plan.result.items[0] if type(plan.result) is Group else plan.result
    if any(type(size) is not int for size in (*taken._meta.size, *given.meta.size)):
        return False
    results = math.prod(given.meta.size)
    numbers = math.prod(taken._meta.size) // results if results else 0
    return bool(numbers <= correction_of(args[1:], kwargs))


def correction_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`correction`, or what `unbiased` means, which is the first or second argument behind the tensor."""
    if kwargs.get("correction") is not None:
        return kwargs["correction"]
    unbiased = [value for value in (*args[:2], kwargs.get("unbiased")) if type(value) is bool]
    return int(unbiased[0]) if unbiased else 1
