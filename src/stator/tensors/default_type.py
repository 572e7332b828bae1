"""A default dtype that the program changes, for backends that trace: such a graph looks at the default when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from stator.tensors.plan import Group, New, Plan, Same
from stator.tensors.targets import Target

if TYPE_CHECKING:
    from stator.tensors.traced import TracedTensor


def made_explicit(target: Target, plan: Plan, tensors: list[TracedTensor], given: Any) -> dict[str, Any] | None:
    """The arguments with which a call does the same under any default; None: there are none known."""
    if target.factory:
        return {"dtype": plan.result.meta.dtype} if type(plan.result) is New and not tensors else None
    if any(is_floating(traced._meta.dtype) for traced in tensors):
        return {}
    whole = all(type(part) is Same or not is_floating(part.meta.dtype) for part in results(plan.result))
    return {} if tensors and whole and not holds_floats(given) else None


def is_floating(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def results(what: Any) -> Iterator[Any]:
    """The tensors that a call gives."""
    if type(what) is Group:
        for item in what.items:
            yield from results(item)
    elif type(what) in (New, Same):
        yield what


def holds_floats(value: Any) -> bool:
    """Whether floats are among the arguments."""
    if type(value) in (tuple, list):
        return any(map(holds_floats, value))
    return holds_floats(list(value.values())) if type(value) is dict else isinstance(value, (float, complex))
