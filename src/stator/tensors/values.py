"""Data of tensors as Python numbers: ints and conditions are symbols, floats are 0-d tensors of the graph."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.floats import IN_GRAPH, FromData, TracedFloat
from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors import constants
from stator.tensors.signals import DataDependent
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

MOST_NUMBERS = 4096  # of one `tolist()`


def number_of(recorder: Recorder, traced: TracedTensor, name: str = "Tensor.item") -> Any:
    """The Python number in a tensor with one element."""
    if recorder.follow() is None or not _is_single(traced):
        raise DataDependent(name)
    dtype = traced._meta.dtype
    if dtype is torch.bool and (known := constants.truth(recorder, traced)) is not None:
        return known
    if dtype.is_complex or dtype is torch.uint64:
        raise DataDependent(name)
    if dtype.is_floating_point:
        return _float(recorder, traced)
    if dtype is torch.bool:
        return recorder.number_from_data(recorder.call(torch.Tensor.to, (traced, torch.int64)), 0, 1) != 0
    known = recorder.scalars.find(traced, lambda part: number_of(recorder, part))
    return recorder.scalars.keep(traced, recorder.number_from_data(traced)) if known is None else known


def int_of(recorder: Recorder, traced: TracedTensor) -> Any:
    """`int(traced)`."""
    dtype = traced._meta.dtype
    if dtype.is_floating_point and recorder.follow() is not None and _is_single(traced):
        return whole_of(recorder, int, recorder.call(torch.Tensor.detach, (traced,)))
    if dtype is torch.bool and recorder.follow() is not None and _is_single(traced):
        return recorder.number_from_data(recorder.call(torch.Tensor.to, (traced, torch.int64)), 0, 1)
    return number_of(recorder, traced, "int")


def index_of(recorder: Recorder, traced: TracedTensor) -> Any:
    """`operator.index(traced)`, which refuses what is no single int."""
    dtype = traced._meta.dtype
    if dtype.is_floating_point or dtype.is_complex or not _is_single(traced):
        raise DataDependent("operator.index")
    return int_of(recorder, traced)


def whole_of(recorder: Recorder, function: Any, tensor: TracedTensor) -> Any:
    """The int that `int`, `round`, `math.floor` or `math.ceil` gives for a float; nan and infinity are errors."""
    if recorder.follow() is None or recorder.symbols is None:
        raise DataDependent("int")
    small = recorder.call(torch.lt, (recorder.call(torch.abs, (tensor,)), float(1 << 62)))
    recorder.symbols.assume(number_of(recorder, small), "a float that is no int")
    name = _ROUNDINGS.get(function)
    rounded = tensor if name is None else recorder.call(name, (tensor,))
    return recorder.number_from_data(recorder.call(torch.Tensor.to, (rounded, torch.int64)))


_ROUNDINGS: dict[Any, Any] = {round: torch.round, math.floor: torch.floor, math.ceil: torch.ceil}


def float_of(recorder: Recorder, traced: TracedTensor) -> Any:
    """`float(traced)`."""
    if recorder.follow() is None or traced._meta.dtype.is_complex or not _is_single(traced):
        raise DataDependent("float")
    return _float(recorder, traced)


def bool_of(recorder: Recorder, traced: TracedTensor) -> Any:
    """`bool(traced)`, as long as nobody branches on it."""
    if (known := constants.truth(recorder, traced)) is not None:
        return known
    if recorder.follow() is None or not _is_single(traced):
        raise DataDependent("bool", "", "data-dependent-branch")
    return number_of(recorder, recorder.call(torch.ne, (traced, 0)), "bool")


def list_of(recorder: Recorder, traced: TracedTensor) -> Any:
    """`traced.tolist()`."""
    sizes = [_least(recorder, size) for size in traced._meta.size]
    if not sizes:
        return number_of(recorder, traced, "Tensor.tolist")
    static = all(type(size) is int for size in sizes)
    if recorder.follow() is None or not static or math.prod(sizes) > MOST_NUMBERS:
        raise DataDependent("Tensor.tolist")
    whole = traced._meta.size[0]
    if type(whole) is TracedInt and whole.symbols.is_unbacked(whole):
        whole.symbols.assume(whole == sizes[0])
        traced = recorder.call(torch.Tensor.narrow, (traced, 0, 0, sizes[0]))
    return [list_of(recorder, row) for row in recorder.call(torch.Tensor.unbind, (traced, 0))]


def _least(recorder: Recorder, size: Any) -> Any:
    """A size that only data tells but has a least value, as of `bincount(x, minlength=n)`, is assumed to have that.

    One that this call tells is a constant from now on: there is a number for each element.
    """
    symbols = recorder.symbols
    if type(size) is not TracedInt or symbols is None or not symbols.unbacked:
        return size
    if not symbols.is_unbacked(size):
        return size.decay()
    least = symbols.env.bound_sympy(size.expr).lower
    return int(least) if least.is_Integer and least >= 1 else size


def _is_single(traced: TracedTensor) -> bool:
    one = math.prod(traced._meta.size) == 1
    return type(one) is not TracedBool and one


def _float(recorder: Recorder, traced: TracedTensor) -> Any:
    """A float that the graph gives."""
    recorder.has_floats = True
    tensor = moment(recorder, traced, torch.float64)
    assert recorder.symbols is not None
    made = recorder.symbols.floats.base(FromData(tensor, recorder.symbols.stack()), math.nan)
    made.tensors[torch.float64] = tensor
    return made


def moment(recorder: Recorder, traced: TracedTensor, dtype: torch.dtype) -> Any:
    """The number in a tensor at this moment as a 0-d tensor of its own, without history."""
    with torch.no_grad():
        tensor = recorder.call(torch.Tensor.reshape, (recorder.call(torch.Tensor.detach, (traced,)), ()))
        return recorder.call(torch.Tensor.to, (tensor, dtype), {"copy": True})


def tensor_of(recorder: Recorder, number: TracedFloat) -> Any:
    """The 0-d tensor of the graph for a float that depends on data, calculated there."""
    if number.function is None:
        return number.args[0].tensor
    with torch.no_grad():
        if number.function not in IN_GRAPH:
            raise DataDependent("Python", "its value is needed before the graph has run")
        args = [_operand(recorder, arg) for arg in number.args]
        if number.function in (max, min):
            return _extreme(recorder, operator.gt if number.function is max else operator.lt, args)
        function = _FUNCTIONS.get(number.function, number.function)
        return args[0] if function is float else recorder.call(function, tuple(args))


_FUNCTIONS: dict[Any, Any] = {abs: torch.abs, math.sqrt: torch.sqrt}


def _extreme(recorder: Recorder, better: Any, args: list[Any]) -> Any:
    """What Python's `max` and `min` give, also for nan and for zeros of either sign."""
    best, *others = [
        arg if type(arg) is TracedTensor else recorder.call(torch.scalar_tensor, (arg,), {"dtype": torch.float64})
        for arg in args
    ]
    for other in others:
        best = recorder.call(torch.where, (recorder.call(better, (other, best)), other, best))
    return best


def assume(recorder: Recorder, function: Any, number: TracedFloat) -> None:
    """The graph holds only if a float compares with zero like this."""
    assert recorder.symbols is not None
    with torch.no_grad():
        holds = recorder.call(function, (number.tensor(), 0.0))
    recorder.symbols.assume(number_of(recorder, holds), "a float that Python cannot calculate with")


def _operand(recorder: Recorder, arg: Any) -> Any:
    if type(arg) is TracedFloat:
        return arg.tensor()
    if type(arg) is TracedInt:
        return recorder.call(torch.scalar_tensor, (arg,), {"dtype": torch.float64, "device": "cpu"})
    return float(arg)
