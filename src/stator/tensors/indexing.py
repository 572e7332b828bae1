"""Indices with numbers that only data tells: taken apart into selections and slices, as torch itself does."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors.signals import DataDependent
from stator.tensors.targets import target_of
from stator.tensors.traced import TracedTensor
from stator.tensors.values import number_of

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

GETITEM: Any = target_of(operator.getitem)
SETITEM: Any = target_of(operator.setitem)
WHOLE = slice(None)


def needs_data(index: Any, tensor: Any) -> bool:
    """Whether indexing would ask for a number that only data tells, or make a constant of a symbol."""
    if type(index) is tuple:
        return any(needs_data(part, tensor) for part in index)
    if type(index) is slice:
        if any(map(_is_from_data, (index.start, index.stop, index.step))):
            return True
        return _is_from_end(index.start) and any(map(_is_from_data, tensor._meta.size))
    return type(index) is TracedInt or is_index(index) or is_list(index)


def is_list(index: Any) -> bool:
    """Whether an index is a list of ints, some of which only data tells."""
    if type(index) is not list or not index or not all(type(part) in (int, TracedInt) for part in index):
        return False
    return any(map(_is_from_data, index))


def _is_from_data(part: Any) -> bool:
    if type(part) is TracedInt:
        return part.symbols.is_unbacked(part)
    return is_bound(part)


def _is_from_end(start: Any) -> bool:
    return type(start) is int and start < 0


def is_index(value: Any) -> bool:
    """A 0-d tensor of an integer type is an int to indexing."""
    return type(value) is TracedTensor and not value._meta.size and is_bound(value)


def is_bound(value: Any) -> bool:
    """A tensor with one element of an integer type is an int to slices."""
    if type(value) is not TracedTensor or not all(type(size) is int and size == 1 for size in value._meta.size):
        return False
    dtype = value._meta.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype in (torch.bool, torch.uint8))


def is_switch(tensor: Any, index: Any, value: Any) -> bool:
    """Whether `tensor[index] = number` writes all or nothing: by a condition without dimensions."""
    if type(tensor) is not TracedTensor or type(index) is not TracedTensor or type(value) not in (int, float):
        return False
    plain = tensor._meta.dtype.is_floating_point and not tensor._meta.requires_grad
    return index._meta.dtype is torch.bool and not index._meta.size and plain


def with_numbers(recorder: Recorder, args: Any, kwargs: Any, first: int = 1) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call in which 0-d tensors are numbers, from the n-th argument on and in sequences of sizes."""
    found = tuple(_number(recorder, arg) if i >= first else arg for i, arg in enumerate(args))
    return found, {name: arg if name in WORKED_ON else _number(recorder, arg) for name, arg in kwargs.items()}


def _number(recorder: Recorder, value: Any) -> Any:
    if type(value) in (tuple, list) and any(map(is_index, value)):
        return type(value)(_number(recorder, item) for item in value)
    return number_of(recorder, value) if is_index(value) else value


def holds_sizes(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a function that takes sizes is given tensors for some of them."""
    first = SIZED.get(func)
    if first is None:
        return False
    return any(
        is_index(arg) or (type(arg) in (tuple, list) and any(map(is_index, arg)))
        for arg in (*args[first:], *(arg for name, arg in kwargs.items() if name not in WORKED_ON))
    )


WORKED_ON = frozenset({"input", "tensor", "self"})  # names of what the sizes are for
# Functions of sizes: how many arguments come before them.
SIZED: dict[Any, int] = {
    **{getattr(torch, name): 0 for name in ("zeros", "ones", "empty", "rand", "randn", "arange")},
    **{
        getattr(torch.Tensor, name): 1
        for name in ("view", "reshape", "expand", "repeat", "new_zeros", "new_ones", "new_empty", "narrow", "split")
    },
    torch.reshape: 1,
    torch.narrow: 1,
    torch.split: 1,
    torch.nn.functional.one_hot: 1,
    torch.linspace: 2,
    torch.logspace: 2,
}


def get(recorder: Recorder, tensor: TracedTensor, index: Any) -> Any:
    """`tensor[index]`."""
    parts = list(index) if type(index) is tuple else [index]
    if recorder.sub is not None and recorder.sub.gathers and all(map(is_index, parts)):
        return recorder.call(torch.ops.aten.index.Tensor, (tensor, parts))
    view, rest = _view(recorder, tensor, index)
    if rest:
        return recorder.record(GETITEM, (view, rest), {})
    return recorder.call(torch.Tensor.alias, (view,)) if view is tensor else view


def put(recorder: Recorder, tensor: TracedTensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`."""
    view, rest = _view(recorder, tensor, index)
    recorder.record(SETITEM, (view, rest or ..., value), {})


def _view(recorder: Recorder, tensor: TracedTensor, index: Any) -> tuple[TracedTensor, tuple[Any, ...]]:
    """What ints, slices and new dimensions make of the tensor, and the index of tensors that is left."""
    parts = index if type(index) is tuple else (index,)
    if any(map(is_list, parts)):
        kwargs = {"device": tensor._meta.device}
        parts = tuple(recorder.call(torch.tensor, (part,), kwargs) if is_list(part) else part for part in parts)
    used = sum(_dims(part) for part in parts)
    rest: list[Any] = []
    dim = 0
    for part in parts:
        kind = type(part)
        if kind is int or kind is TracedInt or is_index(part):
            part = number_of(recorder, part) if kind is TracedTensor else part
            tensor = recorder.call(torch.Tensor.select, (tensor, dim, part))
        elif kind is slice:
            tensor = _slice(recorder, tensor, dim, part)
            dim += 1
        elif part is None:
            tensor = recorder.call(torch.Tensor.unsqueeze, (tensor, dim))
            dim += 1
        elif part is ...:
            dim += len(tensor._meta.size) - dim - (used - sum(_dims(p) for p in parts[: _at(parts, part)]))
        else:
            rest += [WHOLE] * (dim - len(rest))
            rest.append(part)
            dim += 1
    return tensor, tuple(rest)


def _at(parts: Any, part: Any) -> int:
    return next(i for i, item in enumerate(parts) if item is part)


def _dims(part: Any) -> int:
    """Dimensions that a part of an index takes."""
    if part is None or part is ...:
        return 0
    if type(part) in (int, TracedInt, slice):
        return 1
    if type(part) is TracedTensor and part._meta.dtype not in (torch.bool, torch.uint8):
        return 1
    if type(part) is TracedTensor and len(part._meta.size) == 1:
        return 1
    raise DataDependent("indexing", "a mask or a list next to a number that only data tells", "data-dependent-shape")


def _slice(recorder: Recorder, tensor: TracedTensor, dim: int, part: slice) -> TracedTensor:
    start, stop, step = (
        number_of(recorder, value) if type(value) is TracedTensor else value
        for value in (part.start, part.stop, part.step)
    )
    if (start, stop, step) == (None, None, None):
        return tensor
    symbols, size = recorder.symbols, tensor._meta.size[dim]
    if symbols is None:  # a slice in front of the first number that only data tells
        return _sliced(recorder, tensor, dim, part)
    low: Any = 0
    if _is_from_end(start) and _is_from_data(size):
        symbols.assume(size >= -start)  # so that as many are left
        low = start = size + start
    elif _is_from_data(start):
        low = symbols.within(start, 0, size)
        if symbols.clamps and step in (None, 1):
            start = low
            stop = symbols.clamped(stop, low, size) if type(stop) is int and stop >= 0 else stop
    elif type(start) is int and start > 0:
        low = start
    if _is_from_data(stop):
        end = symbols.within(stop, low, size)
        stop = end if symbols.clamps and step in (None, 1) else stop
    return _sliced(recorder, tensor, dim, slice(start, stop, step))


def _sliced(recorder: Recorder, tensor: TracedTensor, dim: int, part: slice) -> TracedTensor:
    made: TracedTensor = recorder.record(GETITEM, (tensor, (*[WHOLE] * dim, part)), {})
    return made
