"""For backends that trace: whether torch's numpy comes to what numpy makes."""

from __future__ import annotations

from typing import Any

import torch

from stator.tensors.array_arguments import Leaves, itself, put_in
from stator.tensors.array_calls import are_same_steps, laid_out, traced_call
from stator.tensors.fakes import looking, make_fake, own_mode
from stator.tensors.plan import Group, New
from stator.tensors.signals import UnsupportedOp


def check_twin(name: str, leaves: Leaves, args: Any, kwargs: Any, written: frozenset[int], result: Any) -> None:
    """For backends that trace: torch's numpy must come to the same layout, and share the same memory."""
    if (error := _hidden_error(name, leaves, args, result)) is not None:
        raise UnsupportedOp(name, error, "tensor-numpy")
    mode = own_mode()
    made_of: dict[int, Any] = {}
    pairs = zip(leaves.tensors, leaves.layouts, strict=True)
    fakes = [made_of.setdefault(id(tensor), make_fake(mode, layout)) for tensor, layout in pairs]
    memory = {id(leaves.tensors[i]._storage): id(leaves.tensors[i]) for i in written}
    if any(memory.get(id(tensor._storage), id(tensor)) != id(tensor) for tensor in leaves.tensors):
        raise UnsupportedOp(name, "a write to memory that is read in another way", "tensor-numpy")
    versions = [fake._version for fake in fakes]
    try:
        with looking(), mode:
            given = put_in((args, kwargs), fakes.__getitem__, itself)
            made = traced_call(name, leaves.kinds, *given)
    except Exception as error:
        raise UnsupportedOp(name, f"torch cannot do it: {error}", "tensor-numpy") from None
    moved = frozenset(i for i, fake in enumerate(fakes) if fake._version != versions[i])
    if moved != written or not _same(made, result, fakes, type(result) is New):
        raise UnsupportedOp(name, "torch's numpy gives another type or layout, or other memory", "tensor-numpy")
    if type(result) is New and (made.stride() != result.meta.stride or (result.alias is None and 1 in made.shape)):
        # what a kernel gives along single elements may not be what is told
        leaves.kinds += laid_out(result.meta.stride)


def _hidden_error(name: str, leaves: Leaves, args: Any, result: Any) -> str | None:
    """Why numpy may raise where torch gives a value, or give another one."""
    if name in DIFFERENT:
        return "torch's numpy gives other values"
    if name in POWERS and type(result) is New and not result.meta.dtype.is_floating_point:
        if result.meta.dtype.is_complex:
            return "torch's numpy gives other values"
        if type(args[1]) is not int or args[1] < 0:
            return "an integer to a power that may be negative"
    ranges = [torch.iinfo(tensor._meta.dtype) for tensor in leaves.tensors if _is_integer(tensor._meta.dtype)]
    numbers = [arg for arg in args if type(arg) is int]
    if any(not limits.min <= value <= limits.max for limits in ranges for value in numbers):
        return "a number beyond the type of the array"
    return None


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


DIFFERENT = frozenset({f"numpy:{name}" for name in ("cbrt", "sign", "modf", "heaviside", "lcm")})  # of nan
POWERS = frozenset({"operator:pow", "operator:ipow", "numpy:power", "numpy:pow", "numpy:float_power"})


def _same(made: Any, result: Any, fakes: list[Any], alone: bool) -> bool:
    """Whether torch made what numpy makes; a result that is `alone` and new can be laid out as wanted."""
    if type(result) is Group:
        return len(made) == len(result.items) and all(
            _same(*row, fakes, False) for row in zip(made, result.items, strict=True)
        )
    if type(result) is not New:
        return True
    meta = result.meta
    alias = [i for i, fake in enumerate(fakes) if made._typed_storage()._cdata == fake._typed_storage()._cdata]
    wanted = [] if result.alias is None else [result.alias]
    if (tuple(made.shape), made.dtype) != (tuple(meta.size), meta.dtype) or alias != wanted:
        return False
    if alone:
        return not alias or are_same_steps(made, meta.stride)
    return made.numel() <= 1 or made.stride() == meta.stride
