"""Warnings that only kernels give, so that fake tensors do not hear them: what is known of the sizes tells."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors.plan import Plan
from stator.tensors.rules.layout import surely
from stator.tensors.traced import TracedTensor


def functions(*names: str) -> set[Any]:
    return {getattr(owner, name) for owner in (torch, torch.Tensor) for name in names if hasattr(owner, name)}


NAMES = ("std", "var", "std_mean", "var_mean")
FREEDOM = functions(*NAMES)
SEARCHING = functions("searchsorted", "bucketize")
OUTDATED = functions("cholesky", "triangular_solve")


def with_warnings(plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    """The plan, that of a call which warns if its kernel does."""
    if plan.warns:
        return replace(plan, in_kernel=True) if "out" in kwargs else plan  # resized: kernels have words of their own
    if func in OUTDATED or (func in SEARCHING and any(map(is_scattered, (*args, *kwargs.values())))):
        return replace(plan, warns=True, in_kernel=True)
    taken = args[0] if args else kwargs.get("input")
    if func not in FREEDOM or type(taken) is not TracedTensor:
        return plan
    numbers, least = reduced(taken._meta.size, *dims_of(args[1:], kwargs)), correction_of(args[1:], kwargs)
    if type(numbers) is TracedInt and numbers.symbols.is_unbacked(numbers):
        if taken._recorder.traces:  # what is traced warns in words of its own: it is for numbers that do not
            numbers.symbols.suppose(operator.gt, numbers, math.floor(least))
        return plan if surely(operator.gt, numbers, math.floor(least)) else replace(plan, warns=True, pure=False)
    return plan if numbers > least else replace(plan, warns=True, in_kernel=True)


def is_scattered(value: Any) -> bool:
    return type(value) is TracedTensor and not value.is_contiguous()


def reduced(sizes: Sequence[Any], *dims: int) -> Any:
    """How many numbers become one."""
    kept = {dim % len(sizes) for dim in dims} if sizes else set()
    return math.prod(size for dim, size in enumerate(sizes) if not kept or dim in kept)


def dims_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[int]:
    """The dimensions that are reduced; none if all are."""
    dims = kwargs.get("dim", kwargs.get("axis", args[0] if args else None))
    if dims is None or type(dims) is bool:
        return ()
    return (dims,) if isinstance(dims, (int, TracedInt)) else tuple(dims)


def correction_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`correction`, or what `unbiased` means, which is the first or second argument behind the tensor."""
    if kwargs.get("correction") is not None:
        return kwargs["correction"]
    unbiased = [value for value in (*args[:2], kwargs.get("unbiased")) if type(value) is bool]
    return int(unbiased[0]) if unbiased else 1
